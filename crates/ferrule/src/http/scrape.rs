//! One scrape for all who ask within a moment: making one costs a thousand times what sending it does.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;

use super::gzip::gzipped;

/// A scrape is no older than this.
const MAX_AGE: Duration = Duration::from_millis(50);

/// The last scrape.
#[derive(Debug, Default)]
pub struct SharedScrape {
    last: Mutex<Option<Scrape>>,
}

#[derive(Debug)]
struct Scrape {
    made: Instant,
    plain: Bytes,
    /// Made for the first who wants it.
    gzipped: Option<Bytes>,
}

/// The form of a scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scraped {
    /// As it is.
    Plain(Bytes),
    /// Compressed.
    Gzipped(Bytes),
}

impl SharedScrape {
    /// The scrape of this moment, made unless there is one. Only those who serve metrics wait for it: the proxy's loop never takes
    /// this lock.
    pub fn get(&self, wants_gzip: bool, now: Instant, make: impl FnOnce() -> Vec<u8>) -> Scraped {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = last.take().filter(|scrape| now.saturating_duration_since(scrape.made) < MAX_AGE);
        let scrape =
            last.insert(fresh.unwrap_or_else(|| Scrape { made: now, plain: make().into(), gzipped: None }));
        if wants_gzip {
            scrape.gzipped = scrape.gzipped.take().or_else(|| gzipped(&scrape.plain).map(Bytes::from));
        }
        match &scrape.gzipped {
            Some(bytes) if wants_gzip => Scraped::Gzipped(bytes.clone()),
            _ => Scraped::Plain(scrape.plain.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_made_at_most_every_fifty_milliseconds_and_shared() {
        let (shared, start) = (SharedScrape::default(), Instant::now());
        let mut made = 0;
        let mut scrapes = Vec::new();
        for milliseconds in 0..1000 {
            let render = || {
                made += 1;
                format!("scrape {made}").into_bytes()
            };
            scrapes.push(shared.get(false, start + Duration::from_millis(milliseconds), render));
        }
        assert_eq!(scrapes[999], Scraped::Plain("scrape 20".into()));
        assert_eq!(made, 20);
        let (Scraped::Plain(one), Scraped::Plain(other)) = (&scrapes[0], &scrapes[49]) else { panic!() };
        assert_eq!(one.as_ptr(), other.as_ptr(), "no copies");
    }

    #[test]
    fn it_is_compressed_once() {
        let (shared, now) = (SharedScrape::default(), Instant::now());
        let get = || match shared.get(true, now, || vec![b'x'; 10_000]) {
            Scraped::Gzipped(bytes) => bytes,
            Scraped::Plain(_) => panic!("not compressed"),
        };
        let (one, other) = (get(), get());
        assert!(one.len() < 1000);
        assert_eq!(one.as_ptr(), other.as_ptr());
    }
}
