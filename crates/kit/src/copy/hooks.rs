//! Where a simulator may step into a copy: the point and the choices, by name. What they are for: [`highwater_core::hooks`].

use highwater_core::hooks::{Frequency, Point, Site};

/// A part of the store has been read for a copy; what follows may be read later.
pub(super) const EXPORT: Point = Point::new("Export");

/// A donor refuses a copy: the receiver asks again, or somebody else.
pub const REFUSE_COPY: Site = Site::new("RefuseCopy").made(Frequency::Often);
/// A chunk of a copy is small: its size says nothing.
pub const SMALL_CHUNK: Site = Site::new("SmallChunk");

/// Every choice of a copy.
pub const SITES: &[Site] = &[REFUSE_COPY, SMALL_CHUNK];
