//! C's number formats, as FoundationDB's tester uses them.
//!
//! Option texts are written with `%.17g`, trace values with `%g`, and a workload chooses the format
//! of each metric itself, as a printf string with one double in it. That string comes from the code
//! under test, so it is never handed to a real printf: [`format_one`] understands exactly one
//! conversion of a double (`%e`, `%f`, `%g` and their capitals, with flags, width and precision),
//! `%%`, and refuses the rest.

/// Formats one double by a printf string, or returns why the string is not one for a single double.
pub fn format_one(format: &str, value: f64) -> Result<String, FormatError> {
    let mut out = String::new();
    let mut rest = format;
    let mut conversions = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (conversion, after) = Conversion::parse(rest).ok_or(FormatError::Unsupported)?;
        conversions += 1;
        if conversions > 1 {
            return Err(FormatError::MoreThanOne);
        }
        out.push_str(&conversion.apply(value));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Why a metric's format cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Two conversions, but a metric has one value.
    #[error("expected one conversion, found several")]
    MoreThanOne,
    /// Something other than a double.
    #[error("expected a conversion of a double such as `%.3g`")]
    Unsupported,
}

/// `%g`: six significant digits.
pub fn g(value: f64) -> String {
    general(value, 6, false)
}

/// `%.17g`: enough digits to read the same double back.
pub fn g17(value: f64) -> String {
    general(value, 17, false)
}

/// The widest field and the highest precision taken from a workload: a format is not a way to fill
/// memory.
const WIDTH_MAX: usize = 400;

struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: usize,
    letter: char,
}

impl Conversion {
    fn parse(text: &str) -> Option<(Conversion, &str)> {
        let flags = text.len() - text.trim_start_matches(['-', '+', ' ', '#', '0']).len();
        let (flags, text) = text.split_at(flags);
        let (width, text) = leading_number(text)?;
        let (precision, text) = match text.strip_prefix('.') {
            Some(text) => {
                let (precision, text) = leading_number(text)?;
                (precision.unwrap_or(0), text)
            }
            None => (6, text),
        };
        // `l` before a floating conversion has no effect in C.
        let text = text.strip_prefix('l').unwrap_or(text);
        let letter = text
            .chars()
            .next()
            .filter(|letter| "eEfFgG".contains(*letter))?;
        let conversion = Conversion {
            left: flags.contains('-'),
            plus: flags.contains('+'),
            space: flags.contains(' '),
            alternate: flags.contains('#'),
            zero: flags.contains('0'),
            width: width.unwrap_or(0),
            precision,
            letter,
        };
        Some((conversion, &text[1..]))
    }

    fn apply(&self, value: f64) -> String {
        let digits = match self.letter.to_ascii_lowercase() {
            _ if !value.is_finite() => not_finite(value.abs()),
            'e' => exponential(value.abs(), self.precision),
            'f' => format!("{:.*}", self.precision, value.abs()),
            _ => general(value.abs(), self.precision.max(1), self.alternate),
        };
        let digits = if self.alternate && value.is_finite() {
            with_point(digits)
        } else {
            digits
        };
        let sign = match () {
            () if value.is_sign_negative() && !value.is_nan() => "-",
            () if self.plus => "+",
            () if self.space => " ",
            () => "",
        };
        let missing = self.width.saturating_sub(digits.len() + sign.len());
        let text = if self.left {
            format!("{sign}{digits}{}", " ".repeat(missing))
        } else if self.zero && value.is_finite() {
            format!("{sign}{}{digits}", "0".repeat(missing))
        } else {
            format!("{}{sign}{digits}", " ".repeat(missing))
        };
        if self.letter.is_ascii_uppercase() {
            text.to_ascii_uppercase()
        } else {
            text
        }
    }
}

/// The number at the start of a text, `None` inside when there is none; outer `None` when it is
/// unreasonable.
fn leading_number(text: &str) -> Option<(Option<usize>, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    if end == 0 {
        return Some((None, text));
    }
    let number = text[..end].parse().ok().filter(|n| *n <= WIDTH_MAX)?;
    Some((Some(number), &text[end..]))
}

fn not_finite(value: f64) -> String {
    if value.is_nan() { "nan" } else { "inf" }.to_owned()
}

/// `%e`: Rust writes `1e2`, C `1e+02`.
fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').expect("an exponent was asked for");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// `%g`: the shorter of the two notations, without trailing zeros unless `alternate`.
fn general(value: f64, precision: usize, alternate: bool) -> String {
    if !value.is_finite() {
        let sign = if value == f64::NEG_INFINITY { "-" } else { "" };
        return format!("{sign}{}", not_finite(value));
    }
    // Nearly all numbers are counts: then their digits are all there is to write, if there is room
    // for them.
    let fits = value < 10_f64.powi(precision.min(15) as i32);
    if !alternate && fits && value.is_sign_positive() && value.fract() == 0.0 {
        return (value as u64).to_string();
    }
    // The exponent that matters is the one after rounding to `precision` digits.
    let scientific = exponential(value, precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("just written");
    let exponent: i32 = exponent.parse().expect("just written");
    if exponent < -4 || exponent >= precision as i32 {
        let mantissa = if alternate { mantissa } else { trim(mantissa) };
        let (_, exponent) = scientific.split_once('e').expect("just written");
        return format!("{mantissa}e{exponent}");
    }
    let decimals = (precision as i32 - 1 - exponent) as usize;
    let fixed = format!("{value:.decimals$}");
    if alternate {
        fixed
    } else {
        trim(&fixed).to_owned()
    }
}

/// The flag `#`: a decimal point even if no digit follows it.
fn with_point(mut number: String) -> String {
    if !number.contains('.') {
        let end_of_digits = number.find('e').unwrap_or(number.len());
        number.insert(end_of_digits, '.');
    }
    number
}

fn trim(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_format_agrees_with_c() {
        for (value, expected) in [
            (0.0, "0"),
            (3.0, "3"),
            (1.5, "1.5"),
            (0.1, "0.1"),
            (1e6, "1e+06"),
            (999_999.5, "1e+06"),
            (123_456.0, "123456"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.25, "-2.25"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(g(value), expected, "{value}");
        }
        assert_eq!(g17(0.1), "0.10000000000000001");
        assert_eq!(g17(1e22), "1e+22");
        assert_eq!(g17(30.0), "30");
    }

    #[test]
    fn whole_numbers_agree_with_c_on_both_sides_of_the_room_there_is() {
        for (format, value, expected) in [
            ("%.3g", 999.0, "999"),
            ("%.3g", 1000.0, "1e+03"),
            ("%.1g", 9.0, "9"),
            ("%.1g", 10.0, "1e+01"),
            ("%.0g", 7.0, "7"),
            ("%g", 999_999.0, "999999"),
            ("%g", -0.0, "-0"),
            ("%g", -12.0, "-12"),
            ("%#.3g", 12.0, "12.0"),
            ("%.17g", 999_999_999_999_999.0, "999999999999999"),
            ("%.17g", 1e15, "1000000000000000"),
            ("%.17g", 12_345_678_901_234_568.0, "12345678901234568"),
            ("%.17g", 1e17, "1e+17"),
            ("%5.3g|", 12.0, "   12|"),
            ("%#.1g", 5.0, "5."),
            ("%#.0e", -1_715_102.0, "-2.e+06"),
            ("%#.0f", 7.0, "7."),
            ("%#f", f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_one(format, value).unwrap(), expected, "{format}");
        }
    }

    #[test]
    fn a_format_with_one_double_is_followed() {
        assert_eq!(format_one("%.3g", 1234.5).unwrap(), "1.23e+03");
        assert_eq!(format_one("%0.3g", 0.5).unwrap(), "0.5");
        assert_eq!(format_one("%8.2f ms", 3.15159).unwrap(), "    3.15 ms");
        assert_eq!(format_one("%-8.1f|", 2.0).unwrap(), "2.0     |");
        assert_eq!(format_one("%+08.1f", 2.0).unwrap(), "+00002.0");
        assert_eq!(format_one("%.1e", 12345.0).unwrap(), "1.2e+04");
        assert_eq!(format_one("100 %%", 1.0).unwrap(), "100 %");
        assert_eq!(format_one("0.3g", 1.0).unwrap(), "0.3g");
    }

    #[test]
    fn a_format_that_would_read_other_arguments_is_refused() {
        for format in ["%s", "%d", "%n", "%*f", "%", "%.999999f", "%Lf"] {
            assert_eq!(
                format_one(format, 1.0),
                Err(FormatError::Unsupported),
                "{format}"
            );
        }
        assert_eq!(format_one("%f %f", 1.0), Err(FormatError::MoreThanOne));
    }
}
