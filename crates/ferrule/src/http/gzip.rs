//! Answers compressed for those who accept it: a scrape shrinks to a tenth.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Answer, Question};

/// Compresses the body if whoever asks accepts that.
pub fn compressed(question: &Question, answer: Answer) -> Answer {
    if !question.accepts_gzip {
        return answer;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail; should it, the plain body does as well.
    match encoder.write_all(&answer.body).and_then(|()| encoder.finish()) {
        Ok(body) => {
            Answer { body, ..answer }.with("content-encoding", "gzip").with("vary", "Accept-Encoding")
        }
        Err(_) => answer,
    }
}
