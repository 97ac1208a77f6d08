//! Reading from the beginning of a range.

use super::{Phase, RangeRead, RangeResult, Step, count_cleared, count_cleared_back, skip_unknown};
use crate::client::overlay::{Overlay, Segment};
use crate::data::key::{ALL_END, KeyBound, key_after};
use crate::error::Error;
use crate::proto::{Key, KeySelector};
use bytes::Bytes;

impl RangeRead {
    pub(super) fn advance_forward(&mut self, overlay: Overlay<'_>) -> Result<Step, Error> {
        if matches!(self.phase, Phase::Finish) {
            return Ok(Step::Done(self.finish_forward()));
        }
        if let Phase::CrossedAt(end) = &self.phase {
            if self.begin.key >= *end && !self.begin.is_backward() {
                return Self::nothing(false, false);
            }
            if end.is_empty() {
                return Self::nothing(self.read_to_begin, self.read_through_end);
            }
        }
        let mut cursor = self.resolve_begin(overlay)?;
        let end_cursor = self.resolve_end(overlay)?;
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
            if !end.is_first_greater_or_equal() && begin.key > end.key {
                self.phase = Phase::Crossed;
                return Ok(Step::Resolve(self.end.clone()));
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
            if end.offset <= 1 && end.key.is_empty() {
                return Self::nothing(self.read_to_begin, self.read_through_end);
            }
            if (begin.offset >= end.offset && begin.key >= end.key)
                || (begin.offset >= 1 && begin.key >= self.max_key)
            {
                if end.is_first_greater_or_equal() || nothing_yet {
                    break;
                }
                self.phase = Phase::Cutting;
                return Ok(Step::Resolve(self.end.clone()));
            }
            if cursor.is_known() && cursor.begin_key() > end_cursor.begin_key() {
                if end.is_first_greater_or_equal() {
                    break;
                }
                return Self::nothing(self.read_to_begin, self.read_through_end);
            }
            let past_enough = self.items_past >= 1 - end.offset;
            if self.limits.is_reached() && past_enough {
                break;
            }
            let ends_here = begin.offset > 0
                && end.is_first_greater_or_equal()
                && cursor.begin_key() == KeyBound::new(&end.key);
            if cursor.is_same(&end_cursor) && (cursor.is_known() || ends_here) {
                break;
            }

            match cursor.segment()? {
                Segment::UnknownRange => {
                    if self.limits.has_satisfied_min_rows() && !nothing_yet && past_enough {
                        self.result.more = true;
                        break;
                    }
                    let clear_limit = self.clear_limit();
                    let mut unknown_end = cursor;
                    let mut cleared = 0;
                    if cursor.begin_key() < end_cursor.begin_key() {
                        cleared = skip_unknown(&mut unknown_end, &end_cursor, clear_limit + 100)
                            .min(clear_limit);
                    }
                    let mut read_end = if !unknown_end.is_same(&end_cursor) {
                        if self.end.offset < 1 {
                            self.additional_rows += i64::from(1 - self.end.offset);
                        }
                        KeySelector::first_greater_or_equal(unknown_end.end_key().to_key())
                    } else if self.end.offset < 1 {
                        self.additional_rows += i64::from(1 - self.end.offset);
                        KeySelector::first_greater_or_equal(self.end.key.clone())
                    } else {
                        let mut read_end = self.end.clone();
                        if self.end.offset > 1 {
                            let max = clear_limit - cleared;
                            cleared += count_cleared(unknown_end, &self.max_key, max);
                            read_end.offset += cleared;
                        }
                        read_end
                    };
                    self.additional_rows += i64::from(cleared);

                    let mut read_begin = self.begin.clone();
                    if self.begin.is_first_greater_or_equal() {
                        if cursor.begin_key() > KeyBound::new(&self.begin.key) {
                            self.begin.key = cursor.begin_key().to_key();
                        }
                        read_begin = self.begin.clone();
                    } else if self.begin.offset > 1 {
                        read_begin.offset = 1;
                        self.additional_rows += i64::from(self.begin.offset - 1);
                    } else {
                        let cleared = count_cleared_back(cursor, clear_limit);
                        read_begin.offset -= cleared;
                        self.additional_rows += i64::from(cleared);
                    }
                    if read_end.key < read_begin.key {
                        read_end.key = read_begin.key.clone();
                    }
                    let limits = self.request_limits(2 - read_begin.offset);
                    return Ok(Step::Read {
                        begin: read_begin,
                        end: read_end,
                        limits,
                    });
                }
                Segment::Row => {
                    let until = if end.is_first_greater_or_equal() {
                        &end.key
                    } else {
                        &self.max_key
                    };
                    if let Some(rows) = cursor.take_rows_until(until)? {
                        let rows = rows.as_slice();
                        let mut count = 0;
                        while count < rows.len() && !self.limits.is_reached() {
                            self.limits.decrement(&rows[count]);
                            count += 1;
                        }
                        self.items_past += (rows.len() - count) as i32;
                        self.result.rows.extend_from_slice(&rows[..count]);
                    }
                    cursor.next();
                }
                Segment::EmptyRange => cursor.next(),
            }
        }
        Ok(Step::Done(self.finish_forward()))
    }

    fn finish_forward(&mut self) -> RangeResult {
        let mut result = std::mem::take(&mut self.result);
        result.more |= self.limits.is_reached();
        if self.end.is_first_greater_or_equal() {
            let keep = result.rows.partition_point(|row| row.key < self.end.key);
            if keep < result.rows.len() {
                result.more = false;
                result.rows.truncate(keep);
            }
        }
        result.read_to_begin = self.read_to_begin;
        result.read_through_end = !result.more && self.read_through_end;
        result
    }
}

pub(super) fn known_range(
    begin: &KeySelector,
    end: &KeySelector,
    answer: &RangeResult,
) -> Option<(Key, Key)> {
    let mut from = if begin.offset <= 1 {
        begin.key.clone()
    } else {
        ALL_END
    };
    let mut to = if !answer.more && end.offset >= 1 {
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
        from = from.min(first.key.clone());
        match &answer.read_through {
            Some(through) => to = to.max(through.clone()),
            None if !answer.more && last.key < to => {}
            None => to = key_after(&last.key),
        }
    }
    (from < to).then_some((from, to))
}
