//! Chooses some of many clusters. Whoever may create instances decides how many there are, so each namespace gets a fair share.

use std::collections::HashMap;

/// Something that is chosen or not.
pub(crate) struct Contender<T> {
    /// Each namespace has one before any has two.
    pub(crate) namespace: String,
    /// Decides within a namespace.
    pub(crate) name: String,
    /// Those that are preferred come before all others.
    pub(crate) is_preferred: bool,
    pub(crate) item: T,
}

/// At most `limit` of them, so that no namespace can push out what another has.
pub(crate) fn fair_share<T>(contenders: impl IntoIterator<Item = Contender<T>>, limit: usize) -> Vec<T> {
    let mut all: Vec<_> = contenders.into_iter().collect();
    if all.len() <= limit {
        return all.into_iter().map(|contender| contender.item).collect();
    }
    all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let mut ranks: HashMap<(String, bool), usize> = HashMap::new();
    let mut ranked: Vec<_> = all
        .into_iter()
        .map(|Contender { namespace, name, is_preferred, item }| {
            let rank = ranks.entry((namespace.clone(), is_preferred)).or_default();
            *rank += 1;
            ((!is_preferred, *rank, namespace, name), item)
        })
        .collect();
    ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
    ranked.into_iter().take(limit).map(|(_, item)| item).collect()
}
