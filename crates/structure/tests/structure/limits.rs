//! Limits on numbers of lines.

/// Something with a length: a file, or a function in one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Measured {
    pub lines: usize,
    pub place: String,
}

/// The longest of them as a sentence, and one sentence for each that is too long.
pub(crate) fn measure(what: &str, mut all: Vec<Measured>, most: usize) -> (String, Vec<String>) {
    all.sort();
    all.reverse();
    let figure = all.first().map_or(format!("no {what}"), |longest| {
        format!("longest {what}: {}, {} lines of at most {most}", longest.place, longest.lines)
    });
    let long = all.iter().filter(|it| it.lines > most);
    (figure, long.map(|it| format!("{} has {} lines, more than {most}", it.place, it.lines)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_above_the_limit_are_too_long() {
        let measured = |lines, place: &str| Measured { lines, place: place.to_owned() };
        let all = vec![measured(3, "a.rs"), measured(5, "b.rs"), measured(4, "c.rs")];
        let (figure, long) = measure("file", all.clone(), 3);
        assert_eq!(figure, "longest file: b.rs, 5 lines of at most 3");
        assert_eq!(long, ["b.rs has 5 lines, more than 3", "c.rs has 4 lines, more than 3"]);
        assert_eq!(measure("file", all, 5).1, Vec::<String>::new());
        assert_eq!(measure("file", vec![], 5), ("no file".to_owned(), vec![]));
    }
}
