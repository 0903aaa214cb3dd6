//! Promises of which `make check` tries a sample, with more levels, places and mutations.

use crate::append::assert_snapshots_stay;
use crate::append_killed::assert_kills_are_survived;
use crate::append_safety::{assert_crashes_are_survived, assert_lengths_are_put_in_order};
use crate::damage::assert_damage_is_found;
use crate::fuzz_smoke::assert_importers_survive;
use crate::reads::assert_days_cost_the_same;
use crate::recompress::{
    assert_appends_continue, assert_compressed_files_come_back, assert_copies_keep_what_is_rebuilt,
    assert_damage_is_never_wrong_bytes, assert_threads_change_nothing,
};
use crate::redundancy::assert_zeroes_are_two_kilobytes;
use crate::samples::assert_samples_come_back;
use crate::specification::assert_second_reader_reads;
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
    assert_crashes_are_survived(200);
}

#[test]
fn an_append_killed_at_any_write_leaves_the_image_before_or_after() {
    assert_kills_are_survived(&[], 40);
}

#[test]
fn an_append_to_an_image_with_parity_killed_at_any_write_leaves_it_protected_by_the_next() {
    assert_kills_are_survived(&["--parity", "5%"], 80);
}

#[test]
fn damage_of_a_larger_image_is_found_at_many_places() {
    assert_damage_is_found(160);
}

#[test]
fn importers_survive_more_mutation() {
    assert_importers_survive(3);
}

#[test]
fn a_second_reader_reads_whole_images_of_other_levels() {
    assert_second_reader_reads(&["-1", "-8"]);
}

#[test]
fn sound_and_pictures_come_back_at_other_levels() {
    assert_samples_come_back(&["0", "3", "5", "8"]);
}

#[test]
fn compressed_files_come_back_at_another_level() {
    assert_compressed_files_come_back(&["-6"]);
}

#[test]
fn copies_keep_what_is_rebuilt_and_drop_the_rest() {
    assert_copies_keep_what_is_rebuilt();
}

#[test]
fn threads_do_not_change_an_image_with_streams() {
    assert_threads_change_nothing();
}

#[test]
fn damage_anywhere_in_streams_is_never_wrong_bytes() {
    assert_damage_is_never_wrong_bytes(&[1, 4, 7, 10]);
}

#[test]
fn a_day_costs_the_same_in_a_large_archive_and_a_file_costs_little() {
    assert_days_cost_the_same(&[2, 8]);
}

#[test]
fn appends_continue_what_is_rebuilt() {
    assert_appends_continue();
}

#[test]
fn a_gigabyte_of_zeroes_is_two_kilobytes() {
    assert_zeroes_are_two_kilobytes(1 << 30);
}

#[test]
fn more_lengths_that_a_crash_leaves_are_put_in_order() {
    assert_lengths_are_put_in_order(20);
}
