//! Promises of which `make check` tries a sample, with more levels, places and mutations.

use crate::append::assert_snapshots_stay;
use crate::append_safety::assert_crashes_are_survived;
use crate::damage::assert_damage_is_found;
use crate::fuzz_smoke::assert_importers_survive;
use crate::thin::assert_thin_is_what_is_added;

#[test]
fn every_snapshot_stays_as_it_was_at_other_levels() {
    assert_snapshots_stay(&["-0", "-3", "-9"]);
}

#[test]
fn thin_images_are_what_an_append_adds_at_other_levels() {
    assert_thin_is_what_is_added(&["-0", "-3", "-9"]);
}

#[test]
fn many_crashes_leave_the_image_before() {
    assert_crashes_are_survived(260);
}

#[test]
fn damage_of_a_larger_image_is_found_at_many_places() {
    assert_damage_is_found(160);
}

#[test]
fn importers_survive_more_mutation() {
    assert_importers_survive(3);
}
