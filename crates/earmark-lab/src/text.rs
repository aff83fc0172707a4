//! What text of a memory is encoded. Whether the speaker is in it decides a great deal, so it is a setting.

use clap::ValueEnum;

use crate::data::LabMemory;

/// The text of a memory as the encoder sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryText {
    /// `speaker: text`
    Speaker,
    /// `[date] speaker: text`
    DatedSpeaker,
    /// `Speaker said, "text"`, as the authors of LoCoMo write it
    Said,
    /// `text` alone
    Plain,
}

impl MemoryText {
    /// Its name on the command line and in result rows.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The text of `memory`, with the caption of a picture where there is one. Author and date are left out
    /// where unknown.
    pub fn of(self, memory: &LabMemory) -> String {
        let said = match (self, memory.author.as_deref()) {
            (MemoryText::Plain, _) | (_, None) => memory.text.to_string(),
            (MemoryText::Said, Some(author)) => format!("{author} said, \"{}\"", memory.text),
            (_, Some(author)) => format!("{author}: {}", memory.text),
        };
        let dated = match (self, memory.date.as_deref()) {
            (MemoryText::DatedSpeaker, Some(date)) => format!("[{date}] {said}"),
            _ => said,
        };
        match memory.caption.as_deref() {
            Some(caption) => format!("{dated} and shared {caption}."),
            None => dated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant() {
        let memory = LabMemory {
            id: "1".into(),
            text: "Hi!".into(),
            caption: Some("a photo of a kite".into()),
            author: Some("Ada".into()),
            session: None,
            date: Some("8 May".into()),
            occurred_at: None,
            kind: None,
        };
        let nobody = LabMemory { author: None, caption: None, date: None, ..memory.clone() };
        let rows = [
            (MemoryText::Speaker, "Ada: Hi! and shared a photo of a kite.", "speaker"),
            (MemoryText::DatedSpeaker, "[8 May] Ada: Hi! and shared a photo of a kite.", "dated-speaker"),
            (MemoryText::Said, "Ada said, \"Hi!\" and shared a photo of a kite.", "said"),
            (MemoryText::Plain, "Hi! and shared a photo of a kite.", "plain"),
        ];
        for (variant, expected, name) in rows {
            assert_eq!(variant.of(&memory), expected);
            assert_eq!(variant.of(&nobody), "Hi!");
            assert_eq!(variant.name(), name);
        }
    }
}
