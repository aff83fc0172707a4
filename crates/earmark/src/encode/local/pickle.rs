//! The part of Python's pickle format that names the tensors of a checkpoint. Nothing in a pickle is ever run:
//! calls of functions other than the few that make a tensor or a dictionary become [`Value::Other`].

use std::collections::HashMap;
use std::rc::Rc;

use super::checkpoint::Result;

/// A value of a pickle, as far as checkpoints need it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Text(Rc<str>),
    /// `module.name`.
    Global(Rc<str>),
    Tuple(Rc<[Value]>),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    /// What a persistent id refers to (for PyTorch: a storage).
    Persistent(Rc<Value>),
    /// The arguments of PyTorch's function that puts a tensor together.
    Tensor(Rc<[Value]>),
    /// Everything that plays no part.
    Other,
}

enum Item {
    Value(Value),
    Mark,
}

/// Reads one pickle at the start of `bytes`; returns its value and its length in bytes.
pub(super) fn read(bytes: &[u8]) -> Result<(Value, usize)> {
    let mut machine = Machine { bytes, at: 0, stack: Vec::new(), memo: HashMap::new() };
    while machine.step()? {}
    Ok((machine.pop()?, machine.at))
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Item>,
    memo: HashMap<u64, Value>,
}

impl Machine<'_> {
    /// Runs one operation; false after the last.
    fn step(&mut self) -> Result<bool> {
        match self.byte()? {
            b'.' => return Ok(false),
            0x80 => self.skip(1)?,
            0x95 => self.skip(8)?,
            b'(' => self.stack.push(Item::Mark),
            b'0' => drop(self.pop()?),
            b'N' | 0x88 | 0x89 => self.push(Value::Other),
            b'K' => self.push_int(1)?,
            b'M' => self.push_int(2)?,
            b'J' => self.push_signed_int()?,
            0x8a => self.push_long()?,
            b'G' => self.skip(8).map(|()| self.push(Value::Other))?,
            b'X' => self.push_text(4)?,
            0x8c => self.push_text(1)?,
            0x8d => self.push_text(8)?,
            b'T' => self.push_text(4)?,
            b'U' => self.push_text(1)?,
            b'c' => self.push_global()?,
            0x93 => self.stack_global()?,
            b'}' => self.push(Value::Dict(Vec::new())),
            b']' => self.push(Value::List(Vec::new())),
            b')' => self.push(Value::Tuple(Rc::new([]))),
            0x85 => self.tuple_of(1)?,
            0x86 => self.tuple_of(2)?,
            0x87 => self.tuple_of(3)?,
            b't' => self.tuple()?,
            b'q' => self.memoise(1)?,
            b'r' => self.memoise(4)?,
            0x94 => self.memoise(0)?,
            b'h' => self.recall(1)?,
            b'j' => self.recall(4)?,
            b'Q' => self.persistent()?,
            b'R' | 0x81 => self.call()?,
            b'b' => drop(self.pop()?),
            b'a' => self.append()?,
            b'e' => self.extend()?,
            b's' => self.set_item()?,
            b'u' => self.set_items()?,
            other => return Err(format!("pickle operation 0x{other:02x} at byte {} is not known", self.at - 1)),
        }
        Ok(true)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, len: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or("the pickle is cut short")?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn skip(&mut self, len: usize) -> Result<()> {
        self.take(len).map(drop)
    }

    fn number(&mut self, width: usize) -> Result<u64> {
        let mut number = [0; 8];
        number[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(number))
    }

    fn line(&mut self) -> Result<String> {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|byte| *byte == b'\n').ok_or("the pickle is cut short")?;
        let line = String::from_utf8_lossy(&rest[..len]).into_owned();
        self.at += len + 1;
        Ok(line)
    }

    fn push(&mut self, value: Value) {
        self.stack.push(Item::Value(value));
    }

    fn pop(&mut self) -> Result<Value> {
        match self.stack.pop() {
            Some(Item::Value(value)) => Ok(value),
            _ => Err("the pickle takes more values than it has".into()),
        }
    }

    /// Takes everything above the last mark, and the mark.
    fn pop_to_mark(&mut self) -> Result<Vec<Value>> {
        let mark = self.stack.iter().rposition(|item| matches!(item, Item::Mark)).ok_or("the pickle misses a mark")?;
        let items = self.stack.drain(mark..).skip(1);
        Ok(items.map(|item| if let Item::Value(value) = item { value } else { Value::Other }).collect())
    }

    fn push_int(&mut self, width: usize) -> Result<()> {
        let number = self.number(width)? as i64;
        self.push(Value::Int(number));
        Ok(())
    }

    fn push_signed_int(&mut self) -> Result<()> {
        let number = self.number(4)? as u32 as i32;
        self.push(Value::Int(number.into()));
        Ok(())
    }

    /// A whole number of any size; those beyond 8 bytes (the magic number of old files) play no part.
    fn push_long(&mut self) -> Result<()> {
        let width = usize::from(self.byte()?);
        let bytes = self.take(width)?;
        let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
        let mut number = [if negative { 0xff } else { 0 }; 8];
        let value = number.get_mut(..width).map(|low| low.copy_from_slice(bytes));
        self.push(value.map_or(Value::Other, |()| Value::Int(i64::from_le_bytes(number))));
        Ok(())
    }

    fn push_text(&mut self, width: usize) -> Result<()> {
        let len = self.number(width)? as usize;
        let text = String::from_utf8_lossy(self.take(len)?).into();
        self.push(Value::Text(text));
        Ok(())
    }

    fn push_global(&mut self) -> Result<()> {
        let name = format!("{}.{}", self.line()?, self.line()?);
        self.push(Value::Global(name.into()));
        Ok(())
    }

    fn stack_global(&mut self) -> Result<()> {
        let (name, module) = (self.pop()?, self.pop()?);
        self.push(match (module, name) {
            (Value::Text(module), Value::Text(name)) => Value::Global(format!("{module}.{name}").into()),
            _ => Value::Other,
        });
        Ok(())
    }

    fn tuple_of(&mut self, len: usize) -> Result<()> {
        let mut values = (0..len).map(|_| self.pop()).collect::<Result<Vec<_>>>()?;
        values.reverse();
        self.push(Value::Tuple(values.into()));
        Ok(())
    }

    fn tuple(&mut self) -> Result<()> {
        let values = self.pop_to_mark()?;
        self.push(Value::Tuple(values.into()));
        Ok(())
    }

    /// Remembers the top of the stack. Lists and dictionaries still grow after that and are not remembered:
    /// checkpoints never refer to them again.
    fn memoise(&mut self, width: usize) -> Result<()> {
        let key = if width == 0 { self.memo.len() as u64 } else { self.number(width)? };
        let value = match self.stack.last() {
            Some(Item::Value(Value::List(_) | Value::Dict(_))) => Value::Other,
            Some(Item::Value(value)) => value.clone(),
            _ => return Err("the pickle remembers a value that it does not have".into()),
        };
        self.memo.insert(key, value);
        Ok(())
    }

    fn recall(&mut self, width: usize) -> Result<()> {
        let key = self.number(width)?;
        let value = self.memo.get(&key).cloned().ok_or("the pickle recalls a value that it does not have")?;
        self.push(value);
        Ok(())
    }

    fn persistent(&mut self) -> Result<()> {
        let id = self.pop()?;
        self.push(Value::Persistent(Rc::new(id)));
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Global(function) = function else {
            self.push(Value::Other);
            return Ok(());
        };
        let value = match (&*function, arguments) {
            ("torch._utils._rebuild_tensor_v2" | "torch._utils._rebuild_tensor", Value::Tuple(arguments)) => {
                Value::Tensor(arguments)
            }
            ("torch._utils._rebuild_parameter", Value::Tuple(arguments)) => {
                arguments.first().cloned().unwrap_or(Value::Other)
            }
            ("collections.OrderedDict", _) => Value::Dict(Vec::new()),
            _ => Value::Other,
        };
        self.push(value);
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        let value = self.pop()?;
        self.add_to_list(vec![value])
    }

    fn extend(&mut self) -> Result<()> {
        let values = self.pop_to_mark()?;
        self.add_to_list(values)
    }

    fn add_to_list(&mut self, values: Vec<Value>) -> Result<()> {
        if let Some(Item::Value(Value::List(list))) = self.stack.last_mut() {
            list.extend(values);
        }
        Ok(())
    }

    fn set_item(&mut self) -> Result<()> {
        let (value, key) = (self.pop()?, self.pop()?);
        self.add_to_dict(vec![key, value])
    }

    fn set_items(&mut self) -> Result<()> {
        let values = self.pop_to_mark()?;
        self.add_to_dict(values)
    }

    fn add_to_dict(&mut self, mut values: Vec<Value>) -> Result<()> {
        if let Some(Item::Value(Value::Dict(dict))) = self.stack.last_mut() {
            let mut items = values.drain(..);
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                dict.push((key, value));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_dictionary() {
        // pickle.dumps({"a": (1, 258), "b": -1}, protocol=2)
        let bytes =
            b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01K\x01M\x02\x01\x86q\x02X\x01\x00\x00\x00bq\x03J\xff\xff\xff\xffu.";
        let (value, len) = read(bytes).unwrap();
        let tuple = Value::Tuple([Value::Int(1), Value::Int(258)].into());
        let expected = vec![(Value::Text("a".into()), tuple), (Value::Text("b".into()), Value::Int(-1))];
        assert_eq!((value, len), (Value::Dict(expected), bytes.len()));
    }

    #[test]
    fn a_call_of_anything_else_is_not_made() {
        // pickle of os.system("true")
        let (value, _) = read(b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.").unwrap();
        assert_eq!(value, Value::Other);
    }

    #[test]
    fn every_cut_is_an_error() {
        let bytes = b"\x80\x02}q\x00(X\x01\x00\x00\x00aK\x01u.";
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "{len}");
        }
    }
}
