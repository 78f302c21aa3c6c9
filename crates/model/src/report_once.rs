//! Distinguishes something new from a repetition, so that a lasting state is reported once.
//!
//! Lives here for the same reason as [`crate::Backoff`]. What is reported, and how, is the caller's business.

/// The state that was reported last, if one lasts.
#[derive(Clone, Debug)]
pub struct ReportOnce<T> {
    lasting: Option<T>,
}

impl<T> Default for ReportOnce<T> {
    fn default() -> Self {
        Self { lasting: None }
    }
}

impl<T: PartialEq> ReportOnce<T> {
    /// Whether this state differs from the one before, and so is to be reported.
    pub fn is_new(&mut self, state: T) -> bool {
        let is_new = self.lasting.as_ref() != Some(&state);
        self.lasting = Some(state);
        is_new
    }

    /// The state is over; it is reported again if it comes back. Returns whether there was one.
    pub fn is_over(&mut self) -> bool {
        self.lasting.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_new_once_until_another_comes_or_it_is_over() {
        let mut problem = ReportOnce::default();
        assert!(!problem.is_over(), "there was none");
        let new: Vec<bool> = ["a", "a", "b", "a"].into_iter().map(|state| problem.is_new(state)).collect();
        assert_eq!(new, [true, false, true, true]);
        assert!(problem.is_over() && !problem.is_over());
        assert!(problem.is_new("a"));
    }
}
