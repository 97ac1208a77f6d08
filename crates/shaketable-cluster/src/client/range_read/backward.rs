//! Reading from the end of a range.

use super::{
    Phase, RangeRead, RangeResult, Step, count_cleared, count_cleared_back, skip_unknown_back,
};
use crate::client::overlay::{Overlay, Segment};
use crate::data::key::{ALL_END, KeyBound, key_after};
use crate::error::Error;
use crate::proto::{Key, KeySelector};
use bytes::Bytes;

impl RangeRead {
    pub(super) fn advance_backward(&mut self, overlay: Overlay<'_>) -> Result<Step, Error> {
        if matches!(self.phase, Phase::Finish) {
            return Ok(Step::Done(self.finish_backward()));
        }
        if let Phase::CrossedAt(begin) = &self.phase {
            if *begin >= self.end.key && self.end.offset <= 1 {
                return Self::nothing(false, false);
            }
            if *begin == self.max_key {
                return Self::nothing(self.read_to_begin, self.read_through_end);
            }
        }
        let mut cursor = self.resolve_end(overlay)?;
        let begin_cursor = self.resolve_begin(overlay)?;
        if matches!(self.phase, Phase::Start) {
            let (begin, end) = (&self.begin, &self.end);
            if self.actual_begin_offset >= self.actual_end_offset && begin.key >= end.key {
                return Self::nothing(false, false);
            }
            if (begin.is_first_greater_or_equal() && begin.key == self.max_key)
                || (end.is_first_greater_or_equal() && end.key.is_empty())
            {
                return Self::nothing(self.read_to_begin, self.read_through_end);
            }
            if !begin.is_first_greater_or_equal() && begin.key > end.key {
                self.phase = Phase::Crossed;
                return Ok(Step::Resolve(self.begin.clone()));
            }
        }
        self.phase = Phase::Scan;

        loop {
            let (begin, end) = (&self.begin, &self.end);
            let nothing_yet = self.result.rows.is_empty();
            if nothing_yet
                && self.actual_begin_offset >= self.actual_end_offset
                && begin.key >= end.key
            {
                return Self::nothing(false, false);
            }
            if !begin.is_backward() && begin.key >= self.max_key {
                return Self::nothing(self.read_to_begin, self.read_through_end);
            }
            if (begin.offset >= end.offset && begin.key >= end.key)
                || (end.offset <= 1 && end.key.is_empty())
            {
                if begin.is_first_greater_or_equal() || nothing_yet {
                    break;
                }
                self.phase = Phase::Cutting;
                return Ok(Step::Resolve(self.begin.clone()));
            }
            let past_enough = self.items_past >= begin.offset - 1;
            if past_enough && cursor.is_known() && cursor.begin_key() < begin_cursor.begin_key() {
                if begin.is_first_greater_or_equal() {
                    break;
                }
                return Self::nothing(self.read_to_begin, self.read_through_end);
            }
            if self.limits.is_reached() && past_enough {
                break;
            }
            if end.is_first_greater_or_equal() && cursor.begin_key() == KeyBound::new(&end.key) {
                if past_enough && cursor.is_same(&begin_cursor) {
                    break;
                }
                cursor.previous();
            }

            match cursor.segment()? {
                Segment::UnknownRange => {
                    if self.limits.bytes.is_some() && !nothing_yet && past_enough {
                        self.result.more = true;
                        break;
                    }
                    let clear_limit = self.clear_limit();
                    let mut unknown_end = cursor;
                    let mut cleared = 0;
                    if cursor.begin_key() > begin_cursor.begin_key() {
                        cleared =
                            skip_unknown_back(&mut unknown_end, &begin_cursor, clear_limit + 100)
                                .min(clear_limit);
                    }
                    let mut read_begin = if !unknown_end.is_same(&begin_cursor) {
                        if self.begin.offset > 1 {
                            self.additional_rows += i64::from(self.begin.offset - 1);
                        }
                        KeySelector::first_greater_or_equal(unknown_end.begin_key().to_key())
                    } else if self.begin.offset > 1 {
                        self.additional_rows += i64::from(self.begin.offset - 1);
                        KeySelector::first_greater_or_equal(self.begin.key.clone())
                    } else {
                        let mut read_begin = self.begin.clone();
                        if self.begin.offset < 1 {
                            cleared += count_cleared_back(unknown_end, clear_limit - cleared);
                            read_begin.offset -= cleared;
                        }
                        read_begin
                    };
                    self.additional_rows += i64::from(cleared);

                    let mut read_end = self.end.clone();
                    if self.end.is_first_greater_or_equal() {
                        if cursor.end_key() < KeyBound::new(&self.end.key) {
                            self.end.key = cursor.end_key().to_key();
                        }
                        read_end = self.end.clone();
                    } else if self.end.offset < 1 {
                        read_end.offset = 1;
                        self.additional_rows += i64::from(1 - self.end.offset);
                    } else {
                        let cleared = count_cleared(cursor, &self.max_key, clear_limit);
                        read_end.offset += cleared;
                        self.additional_rows += i64::from(cleared);
                    }
                    if read_begin.key > read_end.key {
                        read_begin.key = read_end.key.clone();
                    }
                    let limits = self.request_limits(read_end.offset);
                    return Ok(Step::Read {
                        begin: read_begin,
                        end: read_end,
                        limits,
                    });
                }
                Segment::Row => {
                    let down_to = if begin.is_first_greater_or_equal() {
                        &begin.key[..]
                    } else {
                        &[]
                    };
                    if let Some(rows) = cursor.take_rows_back_to(down_to)? {
                        let rows = rows.as_slice();
                        let mut count = 0;
                        while count < rows.len() && !self.limits.is_reached() {
                            let row = &rows[rows.len() - 1 - count];
                            self.limits.decrement(row);
                            self.result.rows.push(row.clone());
                            count += 1;
                        }
                        self.items_past += (rows.len() - count) as i32;
                    }
                    if cursor.is_same(&begin_cursor) {
                        break;
                    }
                    cursor.previous();
                }
                Segment::EmptyRange => {
                    if cursor.is_same(&begin_cursor) {
                        break;
                    }
                    cursor.previous();
                }
            }
        }
        Ok(Step::Done(self.finish_backward()))
    }

    fn finish_backward(&mut self) -> RangeResult {
        let mut result = std::mem::take(&mut self.result);
        result.more |= self.limits.is_reached();
        if self.begin.is_first_greater_or_equal() {
            let keep = result.rows.partition_point(|row| row.key >= self.begin.key);
            if keep < result.rows.len() {
                result.more = false;
                result.rows.truncate(keep);
            }
        }
        result.read_to_begin = !result.more && self.read_to_begin;
        result.read_through_end = self.read_through_end;
        result
    }
}

pub(super) fn known_range(
    begin: &KeySelector,
    end: &KeySelector,
    answer: &RangeResult,
) -> Option<(Key, Key)> {
    let mut from = if !answer.more && begin.offset <= 1 {
        begin.key.clone()
    } else {
        ALL_END
    };
    let mut to = if end.offset >= 1 {
        end.key.clone()
    } else {
        Bytes::new()
    };
    if answer.read_to_begin {
        from = Bytes::new();
    }
    if answer.read_through_end {
        to = ALL_END;
    }
    if let (Some(first), Some(last)) = (answer.rows.first(), answer.rows.last()) {
        match &answer.read_through {
            Some(through) => from = from.min(through.clone()),
            None if !answer.more && last.key > from => {}
            None => from = last.key.clone(),
        }
        if first.key >= to {
            to = key_after(&first.key);
        }
    }
    (from < to).then_some((from, to))
}
