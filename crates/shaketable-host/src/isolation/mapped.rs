//! Where the parts of the program and of its libraries lie, as the loader tells.

use std::ops::Range;

/// The parts of a file that are in memory: their addresses, and the flags of their headers.
///
/// # Safety
/// The loader passes this description to a function that visits files, and that has not returned.
pub(super) unsafe fn parts(
    info: &libc::dl_phdr_info,
) -> impl Iterator<Item = (Range<usize>, u32)> + '_ {
    let headers = match info.dlpi_phdr.is_null() {
        true => &[],
        // SAFETY: not null, hence as many headers as the loader says.
        false => unsafe {
            std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
        },
    };
    let loaded = headers.iter().filter(|part| part.p_type == libc::PT_LOAD);
    loaded.map(|part| {
        let begin = (info.dlpi_addr as usize).wrapping_add(part.p_vaddr as usize);
        let range = begin..begin.wrapping_add(part.p_memsz as usize);
        (range, part.p_flags)
    })
}
