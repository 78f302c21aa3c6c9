//! The bucket on a paused clock, which advances only while a task waits.

use super::*;

async fn times(rate: RequestRate, requests: usize) -> Vec<u128> {
    let limit = RateLimiter::new(rate);
    let began = Instant::now();
    let mut times = Vec::new();
    for _ in 0..requests {
        limit.acquire().await;
        times.push((Instant::now() - began).as_millis());
    }
    times
}

#[tokio::test(start_paused = true)]
async fn after_the_burst_requests_come_at_the_rate() {
    let rate = RequestRate::Limited { per_second: 5.0, burst: 3 };
    assert_eq!(times(rate, 6).await, [0, 0, 0, 200, 400, 600]);
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_no_request_waits() {
    assert_eq!(times(RequestRate::Unlimited, 3).await, [0, 0, 0]);
    let negative = RequestRate::Limited { per_second: -1.0, burst: 1 };
    assert_eq!(times(negative, 3).await, [0, 0, 0]);
}
