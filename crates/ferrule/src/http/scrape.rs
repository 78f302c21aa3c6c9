//! Caches a scrape for a moment: making one costs a thousand times as much as sending it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;

use super::gzip::gzipped;

/// How old a cached scrape may be.
const MAX_AGE: Duration = Duration::from_millis(50);

/// The last scrape, shared by all requests of a moment.
#[derive(Debug, Default)]
pub struct ScrapeCache {
    last: Mutex<Option<Scrape>>,
}

#[derive(Debug)]
struct Scrape {
    made: Instant,
    plain: Bytes,
    /// Compressed on first use.
    gzipped: Option<Bytes>,
}

/// A scrape, compressed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScrapeBody {
    /// Uncompressed.
    Plain(Bytes),
    /// Compressed.
    Gzipped(Bytes),
}

impl ScrapeCache {
    /// The cached scrape, or a new one if it is too old. Only the metrics server waits for this lock, never the proxy's loop.
    pub fn get(&self, wants_gzip: bool, now: Instant, make: impl FnOnce() -> Vec<u8>) -> ScrapeBody {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = last.take().filter(|scrape| now.saturating_duration_since(scrape.made) < MAX_AGE);
        let scrape =
            last.insert(fresh.unwrap_or_else(|| Scrape { made: now, plain: make().into(), gzipped: None }));
        if wants_gzip {
            scrape.gzipped = scrape.gzipped.take().or_else(|| gzipped(&scrape.plain).map(Bytes::from));
        }
        match &scrape.gzipped {
            Some(bytes) if wants_gzip => ScrapeBody::Gzipped(bytes.clone()),
            _ => ScrapeBody::Plain(scrape.plain.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_made_at_most_every_fifty_milliseconds_and_shared() {
        let (shared, start) = (ScrapeCache::default(), Instant::now());
        let mut made = 0;
        let mut scrapes = Vec::new();
        for milliseconds in 0..1000 {
            let render = || {
                made += 1;
                format!("scrape {made}").into_bytes()
            };
            scrapes.push(shared.get(false, start + Duration::from_millis(milliseconds), render));
        }
        assert_eq!(scrapes[999], ScrapeBody::Plain("scrape 20".into()));
        assert_eq!(made, 20);
        let (ScrapeBody::Plain(one), ScrapeBody::Plain(other)) = (&scrapes[0], &scrapes[49]) else {
            panic!()
        };
        assert_eq!(one.as_ptr(), other.as_ptr(), "no copies");
    }

    #[test]
    fn it_is_compressed_once() {
        let (shared, now) = (ScrapeCache::default(), Instant::now());
        let get = || match shared.get(true, now, || vec![b'x'; 10_000]) {
            ScrapeBody::Gzipped(bytes) => bytes,
            ScrapeBody::Plain(_) => panic!("not compressed"),
        };
        let (one, other) = (get(), get());
        assert!(one.len() < 1000);
        assert_eq!(one.as_ptr(), other.as_ptr());
    }
}
