//! Turns a mistake in the user's text into a code, a span, a help text and every output format.
