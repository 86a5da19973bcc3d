/* SPDX-License-Identifier: MIT */
/* Finds the functions of a file without symbols in .eh_frame, which has the beginning and the
 * size of each. */
#include "image.hpp"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <libelf.h>

#include <cstring>
#include <unordered_map>

namespace checking
{
namespace
{

std::size_t size_of(unsigned encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return 8;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		return 4;
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		return 2;
	default:
		return 0;
	}
}

/* Reads a little-endian number, sign-extended if the encoding says so. */
std::uint64_t value_of(const std::uint8_t *bytes, unsigned encoding)
{
	const auto size = size_of(encoding);
	std::uint64_t value = 0;

	std::memcpy(&value, bytes, size);
	if ((encoding & DW_EH_PE_signed) && size < 8 && (value >> (8 * size - 1) & 1))
		value |= ~std::uint64_t{0} << (8 * size);
	return value;
}

/* The encoding of function addresses under a common entry; 0xff if it is unknown. */
unsigned encoding_of(const Dwarf_CIE &entry)
{
	const char *letters = entry.augmentation;
	const auto *data = entry.augmentation_data;
	std::size_t left = entry.augmentation_data_size;

	if (!letters || *letters == '\0')
		return DW_EH_PE_absptr;
	if (*letters++ != 'z' || !data)
		return 0xff;
	for (; *letters; letters++) {
		if (*letters == 'S' || *letters == 'B')
			continue;
		if (left == 0)
			return 0xff;
		if (*letters == 'R')
			return *data;
		std::size_t size = 1;
		if (*letters == 'P')
			size += size_of(*data);
		else if (*letters != 'L')
			return 0xff;
		if (size > left)
			return 0xff;
		data += size;
		left -= size;
	}
	return DW_EH_PE_absptr;
}

} // namespace

void image::unwinding_of(Elf *elf, const std::uint8_t *bytes, std::size_t size, address begin)
{
	Elf_Data data = {};
	std::unordered_map<Dwarf_Off, unsigned> encodings;
	Dwarf_Off at = 0;

	data.d_buf = const_cast<std::uint8_t *>(bytes);
	data.d_size = size;
	data.d_type = ELF_T_BYTE;
	data.d_version = EV_CURRENT;
	const auto *const ident = reinterpret_cast<unsigned char *>(elf_getident(elf, nullptr));
	while (at < size) {
		Dwarf_CFI_Entry entry;
		Dwarf_Off next = 0;
		const int status = dwarf_next_cfi(ident, &data, true, at, &next, &entry);
		if (status == 1)
			return; /* the end */
		if (next <= at)
			return;
		if (status == 0 && dwarf_cfi_cie_p(&entry)) {
			encodings[at] = encoding_of(entry.cie);
		} else if (status == 0) {
			const auto known = encodings.find(entry.fde.CIE_pointer);
			const auto how = known == encodings.end() ? 0xffu : known->second;
			const auto width = size_of(how);
			const auto *const from = entry.fde.start;
			const auto base = how & 0x70;
			if (how != 0xff && width != 0 && from >= bytes && entry.fde.end >= from &&
			    static_cast<std::size_t>(entry.fde.end - from) >= 2 * width &&
			    (base == DW_EH_PE_pcrel || base == 0)) {
				auto first = value_of(from, how);
				if (base == DW_EH_PE_pcrel)
					first += begin + static_cast<address>(from - bytes);
				const auto length = value_of(from + width, how & 0x07);
				const auto *const in = section_at(first);
				if (in && length > 0 && length <= in->end() - first)
					functions_.push_back({"", first, first + length});
			}
		}
		at = next;
	}
}

void image::read_unwinding(Elf *elf)
{
	Elf_Scn *scn = nullptr;
	std::size_t strings = 0;

	if (elf_getshdrstrndx(elf, &strings) < 0)
		return;
	while ((scn = elf_nextscn(elf, scn)) != nullptr) {
		GElf_Shdr header;
		if (!gelf_getshdr(scn, &header))
			continue;
		const char *const name = elf_strptr(elf, strings, header.sh_name);
		if (!name || std::strcmp(name, ".eh_frame") != 0 || header.sh_type == SHT_NOBITS)
			continue;
		const Elf_Data *const data = elf_rawdata(scn, nullptr);
		if (data && data->d_buf && data->d_size > 0)
			unwinding_of(elf, static_cast<const std::uint8_t *>(data->d_buf),
				     data->d_size, header.sh_addr);
	}
}

} // namespace checking
