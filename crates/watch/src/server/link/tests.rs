//! Requests that meet on a link, on a paused clock.

use std::pin::{Pin, pin};
use std::task::{Context, Waker};

use super::*;

fn is_pending<F: Future>(future: Pin<&mut F>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

fn failure(cause: &str) -> ApiError {
    ApiError::Transport { what: "listing Services".into(), cause: cause.into(), advice: String::new() }
}

#[tokio::test(start_paused = true)]
async fn one_request_goes_first_and_the_others_follow_its_success() {
    let link = Link::default();
    let probe = link.enter().await.unwrap();
    let mut second = pin!(link.enter());
    assert!(is_pending(second.as_mut()));
    link.set_up();
    second.await.unwrap();
    link.enter().await.unwrap();
    drop(probe);
    link.enter().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn those_who_waited_fail_with_the_probe_and_the_next_one_probes_again() {
    let link = Link::default();
    let probe = link.enter().await.unwrap();
    let (mut second, mut third) = (pin!(link.enter()), pin!(link.enter()));
    assert!(is_pending(second.as_mut()) && is_pending(third.as_mut()));
    probe.set_down(failure("refused"));
    drop(probe);
    assert_eq!(second.await.unwrap_err(), failure("refused"));
    assert_eq!(third.await.unwrap_err(), failure("refused"));
    let _probe = link.enter().await.unwrap();
    assert!(is_pending(pin!(link.enter())));
}

#[tokio::test(start_paused = true)]
async fn a_probe_without_an_outcome_lets_the_next_one_probe() {
    let link = Link::default();
    let probe = link.enter().await.unwrap();
    let mut second = pin!(link.enter());
    assert!(is_pending(second.as_mut()));
    drop(probe);
    let _probe = second.await.unwrap();
    assert!(is_pending(pin!(link.enter())));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_late_does_not_answer_for_a_newer_probe() {
    let link = Link::default();
    link.set_up();
    let (early, late) = (link.enter().await.unwrap(), link.enter().await.unwrap());
    early.set_down(failure("reset"));
    let probe = link.enter().await.unwrap();
    let mut waiting = pin!(link.enter());
    assert!(is_pending(waiting.as_mut()));
    late.set_down(failure("reset"));
    assert!(is_pending(waiting.as_mut()));
    link.set_up();
    drop(probe);
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_recovery_ends_with_it_and_not_with_another_failure() {
    let link = Link::default();
    let probe = link.enter().await.unwrap();
    let mut recovery = pin!(link.recovered_within(Duration::from_secs(30)));
    assert!(is_pending(recovery.as_mut()));
    probe.set_down(failure("refused"));
    assert!(is_pending(recovery.as_mut()));
    link.set_up();
    assert!(!is_pending(recovery.as_mut()));
    let began = tokio::time::Instant::now();
    link.recovered_within(Duration::from_secs(30)).await;
    assert_eq!(began.elapsed(), Duration::from_secs(30));
}
