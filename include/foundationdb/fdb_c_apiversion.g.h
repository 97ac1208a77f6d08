/* Written by conformance/headers.py; do not edit. */
#ifndef FDB_C_APIVERSION_G_H
#define FDB_C_APIVERSION_G_H

/* The newest API version, of the library and for bindings; and those that brought something. */
#define FDB_LATEST_API_VERSION 740
#define FDB_LATEST_BINDINGS_API_VERSION 740
#define FDB_API_VERSION_CLIENT_TMP_DIR 720
#define FDB_API_VERSION_DISABLE_CLIENT_BYPASS 720
#define FDB_API_VERSION_TENANT_API_RELEASED 720

#endif
