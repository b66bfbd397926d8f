//! Access to lists of every representation.

use kross_value::Value as Data;

use super::{List, Value};
use crate::types::Type;

impl List {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Built(items) => items.len(),
            Self::Data(items) => items.len(),
            Self::Typed(list) => list.items.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a position.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Value> {
        match self {
            Self::Built(items) => items.get(at).cloned(),
            Self::Data(items) => items.get(at).map(Value::from),
            Self::Typed(list) => list.items.get(at).map(|item| Value::from_data(item, Some(&list.item))),
        }
    }

    /// The elements.
    #[must_use]
    pub fn iter(&self) -> ListIter<'_> {
        match self {
            Self::Built(items) => ListIter::Built(items.iter()),
            Self::Data(items) => ListIter::Data(items.iter(), None),
            Self::Typed(list) => ListIter::Data(list.items.iter(), Some(&list.item)),
        }
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = Value;
    type IntoIter = ListIter<'a>;

    fn into_iter(self) -> ListIter<'a> {
        self.iter()
    }
}

/// Iterates over the elements of a list.
#[derive(Clone, Debug)]
pub enum ListIter<'a> {
    /// Of a list that was built by an expression.
    Built(std::slice::Iter<'a, Value>),
    /// Of raw JSON, with the type of each element.
    Data(std::slice::Iter<'a, Data>, Option<&'a Type>),
}

impl Iterator for ListIter<'_> {
    type Item = Value;

    #[inline]
    fn next(&mut self) -> Option<Value> {
        match self {
            Self::Built(items) => items.next().cloned(),
            Self::Data(items, item_type) => items.next().map(|item| Value::from_data(item, *item_type)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Built(items) => items.size_hint(),
            Self::Data(items, _) => items.size_hint(),
        }
    }
}

impl DoubleEndedIterator for ListIter<'_> {
    fn next_back(&mut self) -> Option<Value> {
        match self {
            Self::Built(items) => items.next_back().cloned(),
            Self::Data(items, item_type) => items.next_back().map(|item| Value::from_data(item, *item_type)),
        }
    }
}

impl ExactSizeIterator for ListIter<'_> {}
