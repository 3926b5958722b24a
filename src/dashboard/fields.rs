//! Form fields as a page shows them: label, hint, unit, and the error that stands in the hint's place.

use std::collections::BTreeMap;

/// What kind of control it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// One line; the word is the kind of keyboard (`inputmode`).
    Text(&'static str),
    /// One of a few: value and label.
    Select(&'static [(&'static str, &'static str)]),
    /// Several lines.
    Area,
    /// On or off.
    Check,
}

/// One field before it has a value.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in the form and in the plan.
    pub name: &'static str,
    /// Its label.
    pub label: &'static str,
    /// What to know about it.
    pub hint: &'static str,
    /// Its unit; empty where there is none.
    pub unit: &'static str,
    /// Its place in the grid.
    pub class: &'static str,
    /// Its control.
    pub input: Input,
    /// Whether it holds something a machine reads.
    pub mono: bool,
    /// The id of a list of choices; empty where there is none.
    pub list: &'static str,
}

/// One field with its value.
#[derive(Clone, Debug)]
pub struct FieldView {
    /// Its name and id.
    pub name: &'static str,
    /// Its label.
    pub label: &'static str,
    /// What to know about it.
    pub hint: String,
    /// What speaks for the value.
    pub good: String,
    /// What speaks against the value without forbidding it.
    pub warn: String,
    /// What is wrong with it.
    pub error: Option<String>,
    /// Its unit.
    pub unit: &'static str,
    /// Its place in the grid.
    pub class: &'static str,
    /// Its control.
    pub input: Input,
    /// Whether it is set in mono.
    pub mono: bool,
    /// The id of a list of choices; empty where there is none.
    pub list: &'static str,
    /// Its value.
    pub value: String,
}

/// Fields that belong together.
#[derive(Clone, Debug)]
pub struct Group {
    /// Their heading.
    pub legend: &'static str,
    /// The fields.
    pub fields: Vec<FieldView>,
}

/// One line of the list of errors on top of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLine {
    /// The field to go to; empty where there is none.
    pub anchor: String,
    /// What is wrong.
    pub text: String,
}

/// Values by field name.
pub type Values = BTreeMap<String, String>;

/// The fields with these values and errors.
pub fn filled(fields: &[Field], values: &Values, errors: &[(String, String)]) -> Vec<FieldView> {
    fields
        .iter()
        .map(|field| FieldView {
            name: field.name,
            label: field.label,
            hint: field.hint.to_owned(),
            good: String::new(),
            warn: String::new(),
            error: errors
                .iter()
                .find(|(name, _)| name == field.name)
                .map(|(_, message)| message.clone()),
            unit: field.unit,
            class: field.class,
            input: field.input,
            mono: field.mono,
            list: field.list,
            value: values.get(field.name).cloned().unwrap_or_default(),
        })
        .collect()
}

/// The list on top: each error leads to its field, under the field's label.
pub fn error_lines(fields: &[Field], errors: &[(String, String)]) -> Vec<ErrorLine> {
    errors
        .iter()
        .map(|(name, message)| {
            let field = fields.iter().find(|field| field.name == name);
            ErrorLine {
                anchor: field.map(|field| field.name.to_owned()).unwrap_or_default(),
                text: match field {
                    Some(field) => format!("{}: {message}", field.label),
                    None if name.is_empty() => message.clone(),
                    None => format!("{name}: {message}"),
                },
            }
        })
        .collect()
}

/// Reads the pairs of a submitted form or query; every name at most once, at most 100 of them.
///
/// # Errors
/// One sentence that says what is wrong with the form as a whole.
pub fn read_pairs(pairs: Vec<(String, String)>) -> Result<Values, String> {
    if pairs.len() > 100 {
        return Err("The form has more than 100 fields.".to_owned());
    }
    let mut values = Values::new();
    for (name, value) in pairs {
        let shown: String = name.chars().take(40).collect();
        if values
            .insert(name, value.trim().replace("\r\n", "\n"))
            .is_some()
        {
            return Err(format!("The form says {shown} twice."));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_comes_twice_is_refused() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            read_pairs(vec![pair("rate", " 5 "), pair("url", "x")]).unwrap()["rate"],
            "5"
        );
        assert!(read_pairs(vec![pair("rate", "5"), pair("rate", "6")]).is_err());
        assert!(read_pairs((0..101).map(|n| pair(&n.to_string(), "")).collect()).is_err());
    }
}
