/* Setting up with options in the environment: the code that the set-up gives is the first argument. */
#include "check.h"

int main(int count, char **arguments) {
    EXPECT(2, count);
    EXPECT(0, fdb_select_api_version_impl(740, 740));
    EXPECT(atoi(arguments[1]), fdb_setup_network());
    return 0;
}
