//! Circles in a graph of modules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::modules::Graph;

/// One circle for every set of modules that import each other, the shortest through its first module, with the place
/// of each import.
pub(crate) fn circles(graph: &Graph) -> Vec<String> {
    let mut told = BTreeSet::new();
    let mut circles = Vec::new();
    for start in graph.keys() {
        let Some(circle) = shortest(graph, start) else { continue };
        if circle.iter().any(|module| told.contains(module)) {
            continue;
        }
        let step = |(from, to): (&&str, &&str)| format!("{from} -> {to} ({})", graph[*from][*to]);
        let steps: Vec<_> = circle.iter().zip(circle.iter().skip(1)).map(step).collect();
        circles.push(format!("modules import each other in a circle: {}", steps.join(", ")));
        told.extend(circle);
    }
    circles
}

/// The shortest way from a module back to itself.
fn shortest<'a>(graph: &'a Graph, start: &'a str) -> Option<Vec<&'a str>> {
    let mut came_from = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(module) = queue.pop_front() {
        for next in graph.get(module).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                let mut circle = vec![start, module];
                while let Some(before) = circle.last().and_then(|last| came_from.get(last)) {
                    circle.push(*before);
                }
                if module == start {
                    circle.pop();
                }
                circle.reverse();
                return Some(circle);
            }
            if !came_from.contains_key(next.as_str()) {
                came_from.insert(next.as_str(), module);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned(), format!("{from}.rs:1"));
        }
        graph
    }

    #[test]
    fn arrows_that_run_one_way_are_no_circle() {
        assert!(circles(&graph(&[("a", "b"), ("a", "c"), ("b", "c"), ("d", "c")])).is_empty());
    }

    #[test]
    fn a_circle_is_told_once_with_its_places() {
        let told = circles(&graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
        assert_eq!(told, ["modules import each other in a circle: b -> c (b.rs:1), c -> b (c.rs:1)"]);
        let told = circles(&graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("x", "y"), ("y", "x")]));
        assert_eq!(told.len(), 2);
        assert!(told[0].contains("a -> b (a.rs:1), b -> c (b.rs:1), c -> a (c.rs:1)"), "{told:?}");
    }
}
