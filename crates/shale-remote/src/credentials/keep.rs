//! Credentials that are kept while they are valid.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::error::Reason;

/// Credentials are fetched again this long before they expire.
const MARGIN: Duration = Duration::from_secs(120);
/// They are kept no longer than this, whatever a server says.
const VALID_MAX: Duration = Duration::from_secs(24 * 3600);

/// A value that is fetched once and again when it expires.
#[derive(Debug)]
pub(super) struct Keep<T>(Mutex<Option<(T, Option<Instant>)>>);

impl<T> Default for Keep<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Keep<T> {
    /// The value, fetched if there is none or it expires soon. `fetch` returns it with the time for
    /// which it is valid; `None` means for ever.
    pub(super) fn get(
        &self,
        fetch: impl FnOnce() -> Result<(T, Option<Duration>), Reason>,
    ) -> Result<T, Reason> {
        // Others wait: they need the same value.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((value, until)) = &*kept
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(value.clone());
        }
        let (value, valid) = fetch()?;
        let until = valid.map(|valid| Instant::now() + valid.saturating_sub(MARGIN).min(VALID_MAX));
        *kept = Some((value.clone(), until));
        Ok(value)
    }

    /// Forgets the value. Returns true if there was one that could expire.
    pub(super) fn forget(&self) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let could_expire = matches!(&*kept, Some((_, Some(_))));
        if could_expire {
            *kept = None;
        }
        could_expire
    }
}

/// The time until an instant like `2026-11-23T12:00:00Z`.
pub(super) fn until(instant: &str) -> Option<Duration> {
    let at = SystemTime::from(instant.trim().parse::<jiff::Timestamp>().ok()?);
    Some(at.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_while_it_is_valid_and_any_time_will_do() {
        let keep = Keep::default();
        let forever = Duration::from_secs(u64::MAX);
        assert_eq!(keep.get(|| Ok((1, Some(forever)))), Ok(1));
        assert_eq!(keep.get(|| Ok((2, None))), Ok(1));
        assert!(keep.forget());
        assert_eq!(keep.get(|| Ok((3, Some(MARGIN)))), Ok(3));
        assert_eq!(keep.get(|| Ok((4, None))), Ok(4));
        assert!(!keep.forget());
    }
}
