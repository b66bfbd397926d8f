//! What a list is asked for: which objects, and how many per page.

use crate::discovery::{ApiKind, push_encoded};

/// Objects per page. Larger pages save requests and cost memory on both sides.
const PAGE_SIZE: usize = 500;

/// Objects per page of a list. The pages become smaller when one exceeds the limit of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSize(usize);

impl PageSize {
    /// A single object.
    pub(crate) const ONE: Self = Self(1);

    /// CustomResourceDefinitions are large, and clusters that have many of them are common.
    pub(crate) fn of(kind: &ApiKind) -> Self {
        Self(if &*kind.group == "apiextensions.k8s.io" { PAGE_SIZE / 10 } else { PAGE_SIZE })
    }

    pub(crate) fn objects(self) -> usize {
        self.0
    }

    /// Half the size. `None` if a page has a single object already.
    pub(crate) fn halved(self) -> Option<Self> {
        (self.0 > 1).then_some(Self(self.0 / 2))
    }
}

/// Which objects of a kind a list or watch is about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Query<'a> {
    pub(crate) labels: Option<&'a str>,
    pub(crate) fields: Option<&'a str>,
}

impl Query<'_> {
    pub(crate) fn push(&self, path: &mut String) {
        for (name, value) in [("&labelSelector=", self.labels), ("&fieldSelector=", self.fields)] {
            if let Some(value) = value {
                path.push_str(name);
                push_encoded(path, value);
            }
        }
    }
}
