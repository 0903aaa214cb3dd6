//! Inverted index: for each number, the lists that contain it.

/// The index in flat arrays: 4 bytes for each number and 4 for each time it is listed.
#[derive(Debug, Default)]
pub(crate) struct InvertedIndex {
    /// Where the lists of each number begin, and the end of the last ones.
    starts: Vec<u32>,
    lists: Vec<u32>,
}

impl InvertedIndex {
    /// Builds the index of lists of numbers below `count`. A list has each number at most once.
    pub(crate) fn of<'l>(lists: impl Iterator<Item = &'l [u32]> + Clone, count: usize) -> Self {
        let mut starts = vec![0u32; count + 1];
        for &number in lists.clone().flatten() {
            starts[number as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut found = vec![0u32; starts[count] as usize];
        for (list, numbers) in lists.enumerate() {
            for &number in numbers {
                let at = &mut next[number as usize];
                found[*at as usize] = list as u32;
                *at += 1;
            }
        }
        Self { starts, lists: found }
    }

    /// Returns the lists that contain a number, ascending.
    pub(crate) fn get(&self, number: usize) -> &[u32] {
        match self.starts.get(number..number + 2) {
            Some(&[start, end]) => &self.lists[start as usize..end as usize],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leads_to_the_lists_that_have_it() {
        let lists: [&[u32]; 4] = [&[0, 3], &[], &[3], &[1, 0, 3]];
        let inverse = InvertedIndex::of(lists.into_iter(), 5);
        let found: Vec<_> = (0..6).map(|number| inverse.get(number)).collect();
        assert_eq!(found, [&[0, 3][..], &[3], &[], &[0, 2, 3], &[], &[]]);
        assert!(InvertedIndex::default().get(0).is_empty());
    }
}
