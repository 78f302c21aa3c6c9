//! Tools for tests: stories, random clusters, hosts in network namespaces, and API servers.
//!
//! A [`Story`] is a text file: a cluster in a few lines, the plan that follows, packets and their outcome, changes and
//! their effect. Its cluster becomes the same API objects a real API server sends, so every story runs through the
//! converters, the model and the planner. [`World`] does that and can be used alone; `stories/README.md` describes the
//! format. [`random`] has clusters for property tests, [`netns`] hosts that exchange real packets, [`Program`] a program
//! that runs among them. `api_server`, behind the feature of that name, starts a real API server, and [`MemoryBackend`]
//! stands for a kernel in tests of the loop.

#[cfg(feature = "api-server")]
pub mod api_server;
mod causes;
mod draw;
mod memory_backend;
pub mod monitoring;
pub mod netns;
mod program;
pub mod random;
#[cfg(feature = "api-server")]
pub mod scripted_server;
mod story;
#[cfg(feature = "api-server")]
pub mod tls_front;
mod world;

pub use draw::Draw;
pub use memory_backend::{MemoryBackend, MemoryKernel};
pub use program::Program;
pub use story::{Finding, PacketRow, Scene, Story, StoryError, stories_in};
pub use world::{Step, World, WorldError};
