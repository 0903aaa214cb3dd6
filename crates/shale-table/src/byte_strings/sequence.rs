//! Numbers in names: the forms in which a run of digits is stored as one integer.
//!
//! Names sort by bytes, so `1` comes before `10` before `100` before `2`: the plain values of
//! sorted names would jump at every tenth name. So there are three forms, all one-to-one (leading
//! zeros survive) and all keeping byte order:
//!
//! * *Fixed*, for digit runs that all have `L` digits: the decimal value. `007`, `008` is 7, 8.
//! * *Dense*, for runs of 1 to `L` digits: the number of the run among all such runs in byte order,
//!   from 0. Where no name is missing, numbers are consecutive. With `n(j) = (10^(L-j+1) - 1) / 9`,
//!   the runs that start with the same `j` digits, the number of digits `d1 … dk` is the sum of
//!   `dj * n(j)`, plus `k - 1`.
//! * *Spaced*, for runs of 1 to `L` digits: the number whose `L` base-11 digits are the run's
//!   digits plus one, then zeros. Where only the longest runs are missing (1500 files numbered with
//!   up to 4 digits), numbers still rise by equal steps, which dense ones do not.
//!
//! The writer tries both of the latter and keeps the smaller. Nothing of this is stored but the
//! form's id; see [`Form::id`].

use crate::error::Damage;

/// Longest digit run kept as a number; every form's numbers stay below 2^64.
pub(super) const DIGITS_MAX: usize = 18;

const FORM_COUNT: u64 = 1 + 3 * DIGITS_MAX as u64;

const NOT_IN_FORM: Damage = Damage("a name's number does not fit its form");

/// How a template's digit run is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// No digit run: the name is prefix and suffix.
    None,
    /// Digit runs of this length, 1 to [`DIGITS_MAX`].
    Fixed(usize),
    /// Digit runs of at most this length, 1 to [`DIGITS_MAX`], by place.
    Dense(usize),
    /// Digit runs of at most this length, 1 to [`DIGITS_MAX`], in base 11.
    Spaced(usize),
}

impl Form {
    /// On disk: 0 none, 1–18 fixed of that length, 19–36 dense of that length plus 18, 37–54
    /// spaced of that length plus 36.
    pub(super) fn id(self) -> u64 {
        let id = match self {
            Self::None => 0,
            Self::Fixed(len) => len,
            Self::Dense(len) => len + DIGITS_MAX,
            Self::Spaced(len) => len + 2 * DIGITS_MAX,
        };
        id as u64
    }

    pub(super) fn from_id(id: u64) -> Result<Self, Damage> {
        if id == 0 {
            return Ok(Self::None);
        }
        if id >= FORM_COUNT {
            return Err(Damage("a name's number has an unknown form"));
        }
        let len = (id as usize - 1) % DIGITS_MAX + 1;
        Ok(match (id as usize - 1) / DIGITS_MAX {
            0 => Self::Fixed(len),
            1 => Self::Dense(len),
            _ => Self::Spaced(len),
        })
    }

    /// The integer for `digits`, which must be ASCII digits of a length that the form allows.
    pub(super) fn number(self, digits: &[u8]) -> u64 {
        let digits = digits.iter().map(|digit| u64::from(digit - b'0'));
        match self {
            Self::None => 0,
            Self::Fixed(_) => digits.fold(0, |number, digit| number * 10 + digit),
            Self::Dense(len) => {
                let places =
                    digits.zip((1..=len).rev()).map(|(digit, left)| digit * runs(left) + 1);
                places.sum::<u64>() - 1
            }
            Self::Spaced(len) => {
                let unused = (len - digits.len()) as u32;
                digits.fold(0, |number, digit| number * 11 + digit + 1) * 11u64.pow(unused)
            }
        }
    }

    /// Appends the digits of `number`; undoes [`Form::number`].
    pub(super) fn write(self, mut number: u64, out: &mut Vec<u8>) -> Result<(), Damage> {
        let mut digits = [0; DIGITS_MAX];
        let used = match self {
            Self::None => 0,
            Self::Fixed(len) => {
                for digit in digits[..len].iter_mut().rev() {
                    *digit = b'0' + (number % 10) as u8;
                    number /= 10;
                }
                if number != 0 {
                    return Err(NOT_IN_FORM);
                }
                len
            }
            Self::Dense(len) => {
                if number >= 10 * runs(len) {
                    return Err(NOT_IN_FORM);
                }
                let mut used = 0;
                for left in (1..=len).rev() {
                    digits[used] = b'0' + (number / runs(left)) as u8;
                    used += 1;
                    number %= runs(left);
                    if number == 0 {
                        break;
                    }
                    number -= 1;
                }
                used
            }
            Self::Spaced(len) => {
                for digit in digits[..len].iter_mut().rev() {
                    *digit = b'0' - 1 + (number % 11) as u8;
                    number /= 11;
                }
                let is_digit = |digit: &u8| *digit >= b'0';
                let used = digits[..len].iter().take_while(|digit| is_digit(digit)).count();
                if number != 0 || used == 0 || digits[used..len].iter().any(is_digit) {
                    return Err(NOT_IN_FORM);
                }
                used
            }
        };
        out.extend_from_slice(&digits[..used]);
        Ok(())
    }
}

/// Digit runs that begin with the same digits and may have up to `left - 1` more; `left` is 1 to
/// [`DIGITS_MAX`].
fn runs(left: usize) -> u64 {
    const ONES: u64 = 111_111_111_111_111_111;
    ONES / 10u64.pow((DIGITS_MAX - left) as u32)
}

/// The digit run that is `from_right` runs from the right (0: the last), if there is one and it is
/// not too long: start and end.
pub(super) fn digit_run(name: &[u8], from_right: usize) -> Option<(usize, usize)> {
    let mut end = name.len();
    for runs_left in (0..=from_right).rev() {
        end = name[..end].iter().rposition(u8::is_ascii_digit)? + 1;
        let start =
            name[..end].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |i| i + 1);
        if runs_left == 0 {
            return (end - start <= DIGITS_MAX).then_some((start, end));
        }
        end = start;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sorted_names_are_consecutive_in_dense_form() {
        let mut names: Vec<String> = (1..1000).map(|n| n.to_string()).collect();
        names.sort();
        let numbers = names.iter().map(|name| Form::Dense(3).number(name.as_bytes()));
        assert!(numbers.eq(111..111 + 999));
    }

    #[test]
    fn digit_runs_are_found_from_the_right() {
        let name = b"v2-file-0012.mp3";
        assert_eq!(digit_run(name, 0), Some((15, 16)));
        assert_eq!(digit_run(name, 1), Some((8, 12)));
        assert_eq!(digit_run(name, 2), Some((1, 2)));
        assert_eq!(digit_run(name, 3), None);
        assert_eq!(digit_run(b"", 0), None);
        assert_eq!(digit_run(b"7", 0), Some((0, 1)));
        assert_eq!(digit_run(&[b'1'; 19], 0), None);
    }

    #[test]
    fn forms_have_stable_ids() {
        for id in 0..FORM_COUNT {
            assert_eq!(Form::from_id(id).map(Form::id), Ok(id));
        }
        assert!(Form::from_id(FORM_COUNT).is_err());
    }

    #[test]
    fn numbers_that_no_digits_have_are_damage() {
        let mut out = Vec::new();
        assert!(Form::Fixed(2).write(100, &mut out).is_err());
        assert!(Form::Dense(2).write(110, &mut out).is_err());
        assert!(Form::Dense(18).write(u64::MAX, &mut out).is_err());
        assert!(Form::Spaced(2).write(0, &mut out).is_err());
        assert!(Form::Spaced(2).write(5, &mut out).is_err(), "a gap before the last digit");
        assert!(Form::Spaced(2).write(121, &mut out).is_err());
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn digits_round_trip(digits in "[0-9]{1,18}", spare in 0usize..18) {
            let fixed = Form::Fixed(digits.len());
            let len_max = (digits.len() + spare).min(DIGITS_MAX);
            for form in [fixed, Form::Dense(len_max), Form::Spaced(len_max)] {
                let mut out = Vec::new();
                form.write(form.number(digits.as_bytes()), &mut out).unwrap();
                prop_assert_eq!(&out, digits.as_bytes());
            }
        }

        #[test]
        fn numbers_sort_as_their_digits(a in "[0-9]{1,5}", b in "[0-9]{1,5}") {
            for form in [Form::Dense(5), Form::Spaced(6), Form::Dense(18), Form::Spaced(18)] {
                let (x, y) = (form.number(a.as_bytes()), form.number(b.as_bytes()));
                prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            }
        }

        #[test]
        fn any_number_writes_digits_or_is_damage(
            id in 0..FORM_COUNT, number: u64, shift in 0u32..64,
        ) {
            let form = Form::from_id(id).unwrap();
            let number = number >> shift;
            let mut out = Vec::new();
            if form.write(number, &mut out).is_ok() && form != Form::None {
                prop_assert_eq!(form.number(&out), number);
            }
        }
    }
}
