//! Which nodes may replace the objects of which others, as a list of texts. Former nodes that wait for the same ones share a text:
//! `<former>,<former>/<node>,<node>`.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kross_value::Text;

/// The longest list. Half of what the annotation may have.
const MAX_LENGTH: usize = 32 << 10;
/// In place of ids: all of them.
const ANY: &str = "*";

/// The pairs of a list that was read.
pub(crate) struct Replacements(Vec<(HashSet<String>, HashSet<String>)>);

impl Replacements {
    pub(super) fn read<'t>(texts: impl Iterator<Item = &'t String>) -> Self {
        let ids = |text: &str| text.split(',').map(str::to_owned).collect();
        let groups = texts.filter_map(|text| text.split_once('/'));
        Self(groups.map(|(former, nodes)| (ids(former), ids(nodes))).collect())
    }

    /// Whether a node may replace the objects of a former one.
    pub(crate) fn contains(&self, former: &str, node: &str) -> bool {
        let has = |ids: &HashSet<String>, id: &str| ids.contains(id) || ids.contains(ANY);
        self.0.iter().any(|(formers, nodes)| has(formers, former) && has(nodes, node))
    }
}

/// The list. Where it would be too long, everything waits for everything: then nothing is pruned too early.
pub(super) fn write(pairs: &BTreeSet<(Text, Text)>) -> Vec<String> {
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (former, node) in pairs {
        nodes.entry(former).or_default().push(node);
    }
    let mut formers: BTreeMap<Vec<&str>, Vec<&str>> = BTreeMap::new();
    for (former, nodes) in nodes {
        formers.entry(nodes).or_default().push(former);
    }
    let texts: Vec<String> =
        formers.iter().map(|(nodes, formers)| format!("{}/{}", formers.join(","), nodes.join(","))).collect();
    if texts.iter().map(|text| text.len() + 3).sum::<usize>() > MAX_LENGTH {
        return vec![format!("{ANY}/{ANY}")];
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(formers: usize, nodes: usize) -> BTreeSet<(Text, Text)> {
        let pair = |former: usize, node: usize| {
            (format!("formerResource{former}").into(), format!("newResource{node}").into())
        };
        (0..formers).flat_map(|former| (0..nodes).map(move |node| pair(former, node))).collect()
    }

    fn read(texts: &[String]) -> Replacements {
        Replacements::read(texts.iter())
    }

    #[test]
    fn a_pair_is_written_as_before() {
        let texts = write(&BTreeSet::from([("old".into(), "new".into())]));
        assert_eq!(texts, ["old/new"]);
        assert!(read(&texts).contains("old", "new") && !read(&texts).contains("new", "old"));
    }

    #[test]
    fn reads_what_earlier_versions_wrote() {
        let read = read(&["a/x".to_owned(), "a/y".to_owned(), "b/x".to_owned()]);
        assert!(read.contains("a", "x") && read.contains("a", "y") && read.contains("b", "x"));
        assert!(!read.contains("b", "y"));
    }

    #[test]
    fn many_renamed_resources_are_written_once_each() {
        let mut all = pairs(100, 100);
        all.insert(("formerResource0".into(), "another".into()));
        let texts = write(&all);
        assert_eq!(texts.len(), 2);
        assert!(texts.iter().map(String::len).sum::<usize>() < 6 << 10);
        let read = read(&texts);
        assert!(all.iter().all(|(former, node)| read.contains(former, node)));
        assert!(!read.contains("formerResource1", "another"));
    }

    #[test]
    fn too_many_wait_for_each_other() {
        let texts = write(&pairs(2_000, 2));
        assert_eq!(texts, ["*/*"]);
        assert!(read(&texts).contains("formerResource7", "newResource8"));
    }
}
