//! Guides without figures, with the lab's own shapes, and with others.

use super::*;

#[test]
fn every_guide_has_steps_words_and_a_source() {
    let mut words = Vec::new();
    for guide in Guide::ALL {
        assert_eq!(Guide::from_slug(guide.slug()), Some(guide));
        assert!(!guide.steps().is_empty() && !guide.look_for().is_empty());
        assert!(guide.question().ends_with('?') && !guide.source().is_empty());
        for step in guide.steps() {
            let tag = guide.step_tag(step.word);
            assert_eq!(Guide::of_tag(&tag), Some(guide));
            assert!(tag.len() <= 64);
            words.push(tag);
        }
        assert_eq!(Guide::of_tag(&guide.tag()), Some(guide));
    }
    let all = words.len();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), all, "a tag stands for one step");
    assert_eq!(Guide::of_tag("guide:other"), None);
    assert_eq!(Guide::of_tag("core-count"), None);
}

#[test]
fn nothing_measured_is_open_and_never_zero() {
    for guide in Guide::ALL {
        let beside = guide.beside(&Evidence::default());
        assert!(beside.own.is_empty(), "{guide:?}");
        assert_eq!(beside.lab.is_empty(), guide == Guide::RegionFailure);
        assert!(!beside.title.is_empty());
        for row in &beside.rows {
            assert_eq!(row.stands, Stands::Open, "{guide:?}: {row:?}");
            assert_eq!(row.own, "", "{guide:?}: {row:?}");
            assert_eq!(row.says, "not measured yet");
        }
        for spot in &beside.lab {
            assert!(spot.y.is_finite() && spot.y > 0.0, "{guide:?}: {spot:?}");
        }
    }
}

#[test]
fn figures_are_alike_within_a_quarter() {
    let of = |own: Option<f64>| compared("x", 4.0, own, times_text, "why");
    assert_eq!(of(Some(5.0)).stands, Stands::Alike);
    assert_eq!(of(Some(3.2)).stands, Stands::Alike);
    let more = of(Some(8.0));
    assert_eq!(more.stands, Stands::Differs);
    assert_eq!(more.says, "2 times more than there. why");
    assert!(of(Some(1.0)).says.starts_with("4 times less than there"));
    assert_eq!(of(None).stands, Stands::Open);
    assert_eq!(of(Some(f64::NAN)).own, "");
    assert_eq!(of(Some(0.0)).stands, Stands::Differs);
}

#[test]
fn the_table_is_told_in_a_few_words() {
    let row = |own: Option<f64>| compared("x", 1.0, own, times_text, "");
    let (alike, differs, open) = (row(Some(1.0)), row(Some(9.0)), row(None));
    assert_eq!(told(std::slice::from_ref(&open), "open"), "open");
    let both = told(&[alike.clone(), differs, open], "open");
    assert_eq!(both, "1 of 2 figures are as in the source lab, 1 not");
    assert!(told(&[alike], "open").starts_with("The one figure"));
}
