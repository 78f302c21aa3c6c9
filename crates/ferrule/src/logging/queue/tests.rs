//! The queue without a writer.

use super::*;

const LINE: usize = 1000;

fn line() -> String {
    "x".repeat(LINE)
}

fn filled() -> LineQueue {
    let queue = LineQueue::default();
    while queue.dropped_ever() == 0 {
        queue.push_line(Importance::Info, line());
    }
    queue
}

#[test]
fn a_full_queue_drops_what_comes_and_tells_of_it_where_it_is_missing() {
    let queue = filled();
    for _ in 0..9 {
        queue.push_line(Importance::Info, line());
    }
    assert_eq!(queue.dropped_ever(), 10);
    let batch = queue.next(None, true).expect("lines");
    assert_eq!(batch.entries.len(), MAX_QUEUED_BYTES / LINE);
    queue.finish(&batch, 0);
    queue.push_line(Importance::Info, "later".to_owned());
    let later = Entry::Line(Importance::Info, "later".to_owned());
    assert_eq!(queue.next(None, true).expect("lines").entries, [Entry::Dropped(10), later]);
}

#[test]
fn gaps_are_told_of_also_if_nothing_more_comes() {
    let queue = filled();
    let batch = queue.next(None, true).expect("lines");
    queue.finish(&batch, 0);
    assert_eq!(queue.next(None, true).expect("a report").entries, [Entry::Dropped(1)]);
}

#[test]
fn lines_being_written_take_up_room_until_they_are_out() {
    let queue = filled();
    let batch = queue.next(None, true).expect("lines");
    queue.push_line(Importance::Info, line());
    assert_eq!(queue.dropped_ever(), 2, "the writer is stuck with the batch");
    queue.finish(&batch, 0);
    queue.push_line(Importance::Info, line());
    assert_eq!(queue.dropped_ever(), 2);
}

#[test]
fn errors_have_room_of_their_own_and_not_without_end() {
    let queue = filled();
    queue.push_line(Importance::Error, line());
    assert_eq!(queue.dropped_ever(), 1);
    for _ in 0..1000 {
        queue.push_line(Importance::Error, line());
    }
    let batch = queue.next(None, true).expect("lines");
    let errors = batch.entries.iter().filter(|entry| matches!(entry, Entry::Line(Importance::Error, _)));
    assert!((2..=RESERVED_FOR_ERRORS / LINE + 1).contains(&errors.count()));
}

#[test]
fn a_flush_is_given_up_if_nobody_writes() {
    let queue = LineQueue::default();
    queue.push_line(Importance::Error, line());
    assert!(!queue.flush(Duration::from_millis(10)));
    assert!(!queue.flush_if_unlocked(Duration::from_millis(10)));
}

#[test]
fn a_flush_under_the_own_lock_is_given_up() {
    let queue = LineQueue::default();
    let _held = queue.lock();
    assert!(!queue.flush_if_unlocked(Duration::from_millis(10)));
}

#[test]
fn a_closed_queue_ends_once_it_is_empty() {
    let queue = LineQueue::default();
    queue.push_line(Importance::Info, line());
    queue.close();
    let batch = queue.next(None, true).expect("what was there");
    queue.finish(&batch, 0);
    assert_eq!(queue.next(None, true), None);
}

#[test]
fn failed_writes_are_told_of_once_writing_works_again() {
    let queue = LineQueue::default();
    queue.push_line(Importance::Info, line());
    let batch = queue.next(None, true).expect("a line");
    queue.count_lost(1);
    queue.finish(&batch, 1);
    assert_eq!(
        queue.next(Some(Duration::from_millis(1)), false).expect("a flush").entries,
        [Entry::Flush],
        "not while it fails"
    );
    assert_eq!(queue.next(None, true).expect("a report").entries, [Entry::Dropped(1)]);
}
