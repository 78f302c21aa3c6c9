//! Behaviour as text a person can read, and the small world it is told in. For tests only.
//!
//! A [`Story`] is a text file: a cluster in a few words, the plan that follows, packets and what becomes of them,
//! changes and what they change. The words of its cluster are turned into the same API objects a real API server sends,
//! so every story runs through the converters, the model and the planner. The [`World`] does that and can be used alone.
//! `stories/README.md` describes the format. For properties that must hold for any cluster there is [`random`],
//! for real packets between real hosts there is [`netns`], for a program that runs there [`Program`],
//! for a real API server `api_server`, behind the feature of that name.

#[cfg(feature = "api-server")]
pub mod api_server;
mod causes;
mod draw;
pub mod netns;
mod program;
pub mod random;
#[cfg(feature = "api-server")]
pub mod scripted_server;
mod story;
mod world;

pub use draw::Draw;
pub use program::Program;
pub use story::{Finding, PacketRow, Scene, Story, StoryError, stories_in};
pub use world::{Step, World, WorldError};
