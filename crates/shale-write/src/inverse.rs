//! Lists of numbers, turned round: for each number the lists that have it.

/// The lists of each number, in flat arrays: 4 bytes for each number and each that it is listed.
#[derive(Debug, Default)]
pub(crate) struct Inverse {
    /// Where the lists of each number begin, and where the last ones end.
    starts: Vec<u32>,
    lists: Vec<u32>,
}

impl Inverse {
    /// Of lists of numbers below `count`, each at most once in a list.
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

    /// The lists that have a number, ascending.
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
        let inverse = Inverse::of(lists.into_iter(), 5);
        let found: Vec<_> = (0..6).map(|number| inverse.get(number)).collect();
        assert_eq!(found, [&[0, 3][..], &[3], &[], &[0, 2, 3], &[], &[]]);
        assert!(Inverse::default().get(0).is_empty());
    }
}
