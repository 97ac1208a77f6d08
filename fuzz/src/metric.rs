//! A metric's format: what the code under test gives as a printf string is written as C writes
//! it.
//!
//! The C library of this machine is the judge: whatever [`printf::format_one`] accepts,
//! `snprintf` must write the same.

use arbitrary::{Result, Unstructured};
use shaketable_host::printf;
use std::ffi::CString;

/// See the module.
pub fn run(u: &mut Unstructured) -> Result<()> {
    let value = match u.int_in_range(0..=3)? {
        0 => f64::from_bits(u.arbitrary()?),
        1 => f64::from(u.arbitrary::<i32>()?),
        2 => f64::from(u.arbitrary::<i32>()?) / 1000.0,
        _ => *u.choose(&[0.0, -0.0, 0.5, 1.5, 2.5, 9.5, 0.000_099_999_5, 999_999.5])?,
    };
    let mut format = String::new();
    for _ in 0..u.int_in_range(1..=3)? {
        if u.ratio(1, 4)? {
            format.push_str(u.choose(&["%%", "€", "x ", "%", "%d", "%s", "%5"])?);
            continue;
        }
        format.push('%');
        for _ in 0..u.int_in_range(0..=2)? {
            format.push_str(u.choose(&["-", "+", " ", "#", "0"])?);
        }
        format.push_str(u.choose(&["", "", "1", "8", "20", "399", "401"])?);
        format.push_str(u.choose(&["", ".", ".0", ".1", ".3", ".17", ".300", ".99999"])?);
        format.push_str(u.choose(&["", "", "l", "L", "h"])?);
        format.push_str(u.choose(&["e", "f", "g", "E", "F", "G", "d"])?);
    }
    check(&format, value);
    Ok(())
}

/// Formats a value as we do and as C does.
pub fn check(format: &str, value: f64) {
    let Ok(ours) = printf::format_one(format, value) else {
        return;
    };
    let c_format = CString::new(format).expect("a format has no NUL here");
    let mut room = vec![0_u8; 4096];
    // SAFETY: an accepted format has exactly one conversion, of a double, which is passed; at
    // most as many bytes are written as there are.
    let length = unsafe {
        libc::snprintf(
            room.as_mut_ptr().cast(),
            room.len(),
            c_format.as_ptr(),
            value,
        )
    };
    room.truncate(usize::try_from(length).expect("a format that C can follow"));
    let theirs = String::from_utf8(room).expect("what was UTF-8 stays so");
    // A NaN has a sign in C, and ours has none; what matters is that it is not a number. And
    // glibc forgets the zeros that `%#g` asks for when rounding adds a digit: `1.e+06` for
    // 999999.5, where the standard wants `1.00000e+06`.
    let is_judged = !(value.is_nan() || format.contains('#') && format.contains(['g', 'G']));
    if is_judged {
        assert_eq!(ours, theirs, "{format:?} of {value:e}");
    }
}
