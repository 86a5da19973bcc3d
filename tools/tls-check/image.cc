/* SPDX-License-Identifier: MIT */
#include "image.hpp"

#include <elf.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace checking
{

/* A relocation in the code of a relocatable object. */
struct image::relocation {
	unsigned type = 0;
	int name = none;
	bool defined = false; /* in this file, in code or in data */
	address target = 0;   /* of the symbol, if defined */
	std::int64_t addend = 0;
};

namespace
{

constexpr std::size_t most_name = 4096;
/* The distance between sections with made-up addresses, so that a displacement does not lead
 * from one section into another. */
constexpr address room = 0x100000;

const char *elf_problem()
{
	const char *const message = elf_errmsg(-1);

	return message ? message : "it is damaged";
}

std::string string_at(Elf *elf, std::size_t table, std::size_t offset)
{
	const char *const text = elf_strptr(elf, table, offset);

	return text ? std::string(text, strnlen(text, most_name)) : std::string();
}

/* Calls it for every section with its header. Throws at the first that cannot be read. */
template <class F>
void for_sections(Elf *elf, F &&f)
{
	Elf_Scn *scn = nullptr;

	while ((scn = elf_nextscn(elf, scn)) != nullptr) {
		GElf_Shdr header;
		if (!gelf_getshdr(scn, &header))
			throw unreadable{std::string("has a damaged section: ") + elf_problem()};
		f(scn, header);
	}
}

bool begins_with(const std::string &text, const char *with)
{
	return text.compare(0, std::strlen(with), with) == 0;
}

std::string machine_name(const GElf_Ehdr &header)
{
	switch (header.e_machine) {
	case EM_386:
		return "i386";
	case EM_ARM:
		return "32-bit ARM";
	case EM_X86_64:
		return "x86_64 with 32-bit pointers";
	case EM_AARCH64:
		return "another kind of aarch64";
	case EM_RISCV:
		return "RISC-V";
	default:
		return "machine " + std::to_string(header.e_machine);
	}
}

} // namespace

image::image(Elf *elf)
{
	GElf_Ehdr header;

	if (!gelf_getehdr(elf, &header))
		throw unreadable{std::string("has a damaged ELF header: ") + elf_problem()};
	const bool fits =
		header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
	if (!fits || (header.e_machine != EM_X86_64 && header.e_machine != EM_AARCH64))
		throw unreadable{"is for " + machine_name(header) +
				 "; x86_64 and aarch64 can be read"};
	if (header.e_type != ET_REL && header.e_type != ET_EXEC && header.e_type != ET_DYN)
		throw unreadable{"is neither an object nor a program nor a shared library"};
	relocatable_ = header.e_type == ET_REL;
	is_x86_ = header.e_machine == EM_X86_64;
	cpu_ = is_x86_ ? make_x86() : make_aarch64();

	read_sections(elf);
	read_symbols(elf);
	read_relocations(elf);
	if (!relocatable_)
		read_unwinding(elf);
	order_functions();
	if (functions_.empty() && !relocatable_)
		throw unreadable{"has neither symbols nor .eh_frame, so its functions are unknown"};
}

image::~image() = default;

int image::id_of(const std::string &name)
{
	const auto [at, made] = ids_.try_emplace(name, static_cast<int>(names_.size()));

	if (made)
		names_.push_back(name);
	return at->second;
}

void image::read_sections(Elf *elf)
{
	std::size_t strings = 0;
	std::size_t count = 0;
	address next = room;

	if (elf_getshdrnum(elf, &count) < 0 || elf_getshdrstrndx(elf, &strings) < 0)
		throw unreadable{std::string("has a damaged section table: ") + elf_problem()};
	if (count == 0)
		throw unreadable{"has no section headers, so its code cannot be found"};
	for_sections(elf, [&](Elf_Scn *scn, const GElf_Shdr &header) {
		const auto name = string_at(elf, strings, header.sh_name);

		if (!relocatable_ &&
		    (begins_with(name, ".got") || begins_with(name, ".data.rel.ro")))
			constant_[elf_ndxscn(scn)] = {header.sh_addr, header.sh_size};
		if (!(header.sh_flags & SHF_ALLOC))
			return;
		const bool code =
			(header.sh_flags & SHF_EXECINSTR) && header.sh_type == SHT_PROGBITS;
		if (!code && !relocatable_)
			return;
		section made;
		made.index = elf_ndxscn(scn);
		made.name = name;
		made.file_offset = header.sh_offset;
		made.begin = header.sh_addr;
		made.stubs = begins_with(name, ".plt") || begins_with(name, ".iplt");
		if (relocatable_) {
			made.begin = next;
			next += (header.sh_size / room + 2) * room;
			if (header.sh_size > UINT32_MAX)
				throw unreadable{"has a section that is larger than any"};
		}
		if (code) {
			const Elf_Data *const data = elf_rawdata(scn, nullptr);
			if (!data || (data->d_size > 0 && !data->d_buf))
				throw unreadable{std::string("is damaged or cut short: ") +
						 elf_problem()};
			const auto *const bytes = static_cast<const std::uint8_t *>(data->d_buf);
			made.bytes.assign(bytes, bytes + data->d_size);
			if (made.begin + made.bytes.size() < made.begin)
				throw unreadable{"has a section beyond the end of memory"};
		}
		by_index_[made.index] = sections_.size();
		if (!made.bytes.empty())
			code_[made.begin] = sections_.size();
		sections_.push_back(std::move(made));
	});
	if (std::none_of(sections_.begin(), sections_.end(),
			 [](const section &each) { return !each.bytes.empty(); }) &&
	    !relocatable_)
		throw unreadable{"has no code"};
}

/* Where a symbol is; nothing if it is not in this file, or not in memory. */
std::optional<address> image::symbol_address(std::size_t section_index, address value) const
{
	if (section_index == SHN_UNDEF || section_index >= SHN_LORESERVE)
		return std::nullopt;
	if (!relocatable_)
		return value;
	const auto found = by_index_.find(section_index);
	if (found == by_index_.end())
		return std::nullopt;
	return sections_[found->second].begin + value;
}

void image::read_symbols(Elf *elf)
{
	for_sections(elf, [&](Elf_Scn *scn, const GElf_Shdr &header) {
		if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM)
			return;
		Elf_Data *const data = elf_getdata(scn, nullptr);
		if (!data)
			throw unreadable{std::string("has damaged symbols: ") + elf_problem()};
		GElf_Sym symbol;
		for (int i = 0; gelf_getsym(data, i, &symbol); i++) {
			const auto type = GELF_ST_TYPE(symbol.st_info);
			if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
				continue;
			const auto at = symbol_address(symbol.st_shndx, symbol.st_value);
			if (!at)
				continue;
			auto name = string_at(elf, header.sh_link, symbol.st_name);
			/* Skips labels of the assembler, and the mapping symbols of ARM. */
			if (name.empty() || name[0] == '$' || begins_with(name, ".L"))
				continue;
			const auto *const in = section_at(*at);
			if (!in)
				continue;
			/* A label without a type is a function only where it has a size, or where
			 * others refer to it: assembly. */
			if (type == STT_NOTYPE && symbol.st_size == 0 &&
			    GELF_ST_BIND(symbol.st_info) == STB_LOCAL)
				continue;
			symbols_.emplace(*at, name);
			address end = 0;
			if (symbol.st_size > 0 && symbol.st_size <= in->end() - *at)
				end = *at + symbol.st_size;
			functions_.push_back({std::move(name), *at, end});
		}
	});
}

void image::read_relocations(Elf *elf)
{
	for_sections(elf, [&](Elf_Scn *scn, const GElf_Shdr &header) {
		if (header.sh_type != SHT_RELA)
			return;
		const section *in = nullptr;
		if (relocatable_) {
			const auto found = by_index_.find(header.sh_info);
			if (found == by_index_.end() || sections_[found->second].bytes.empty())
				return;
			in = &sections_[found->second];
		}
		Elf_Data *const data = elf_getdata(scn, nullptr);
		Elf_Scn *const symbol_section = elf_getscn(elf, header.sh_link);
		GElf_Shdr symbol_header;
		Elf_Data *symbols = nullptr;
		if (header.sh_link != 0 && symbol_section &&
		    gelf_getshdr(symbol_section, &symbol_header) &&
		    (symbol_header.sh_type == SHT_SYMTAB || symbol_header.sh_type == SHT_DYNSYM))
			symbols = elf_getdata(symbol_section, nullptr);
		if (!data)
			throw unreadable{std::string("has damaged relocations: ") + elf_problem()};
		GElf_Rela each;
		for (int i = 0; gelf_getrela(data, i, &each); i++) {
			relocation made;
			GElf_Sym symbol;
			made.type = static_cast<unsigned>(GELF_R_TYPE(each.r_info));
			made.addend = each.r_addend;
			const auto number = GELF_R_SYM(each.r_info);
			if (number != 0 && symbols && number <= INT32_MAX &&
			    gelf_getsym(symbols, static_cast<int>(number), &symbol)) {
				const auto at = symbol_address(symbol.st_shndx, symbol.st_value);
				made.defined = at.has_value();
				made.target = at.value_or(0);
				if (symbol.st_name != 0)
					made.name = id_of(string_at(elf, symbol_header.sh_link,
								    symbol.st_name));
			}
			if (relocatable_) {
				/* A place may have a second relocation, which is only a hint for
				 * the linker. */
				const auto at = in->begin + each.r_offset;
				const bool hint = made.type == (is_x86_ ? unsigned{R_X86_64_NONE}
									: unsigned{R_AARCH64_NONE});
				if (!hint && each.r_offset < in->bytes.size())
					relocations_[at] = made;
				continue;
			}
			referred word;
			const unsigned type = made.type;
			if (type == (is_x86_ ? R_X86_64_TLSDESC : R_AARCH64_TLSDESC)) {
				word.descriptor = true;
			} else if (type == (is_x86_ ? R_X86_64_JUMP_SLOT : R_AARCH64_JUMP_SLOT) ||
				   type == (is_x86_ ? R_X86_64_GLOB_DAT : R_AARCH64_GLOB_DAT) ||
				   type == (is_x86_ ? R_X86_64_64 : R_AARCH64_ABS64)) {
				word.name = made.name;
				word.target = made.defined ? made.target : 0;
			} else if (type == (is_x86_ ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE) ||
				   type == (is_x86_ ? R_X86_64_IRELATIVE : R_AARCH64_IRELATIVE)) {
				word.target = static_cast<address>(made.addend);
				const auto names = symbols_.find(word.target);
				if (names != symbols_.end())
					word.name = id_of(names->second);
			} else {
				continue;
			}
			/* A word that the program may change tells nothing. */
			const bool fixed = std::any_of(
				constant_.begin(), constant_.end(), [&](const auto &range) {
					return each.r_offset - range.second.first <
					       range.second.second;
				});
			if (fixed)
				words_[each.r_offset] = word;
		}
	});
}

void image::order_functions()
{
	auto &all = functions_;

	/* Of several symbols at one address, prefers one with a size, then the shortest name. */
	std::sort(all.begin(), all.end(), [](const function &a, const function &b) {
		if (a.begin != b.begin)
			return a.begin < b.begin;
		if ((a.end == 0) != (b.end == 0))
			return b.end == 0;
		if (a.name.empty() != b.name.empty())
			return b.name.empty();
		/* Programs know the name with fewer underscores. */
		if (a.name.size() != b.name.size())
			return a.name.size() < b.name.size();
		return a.name < b.name;
	});
	std::vector<function> kept;
	for (auto &each : all) {
		if (!kept.empty() && kept.back().begin == each.begin) {
			if (kept.back().name.empty())
				kept.back().name = each.name;
			continue;
		}
		const auto *const in = section_at(each.begin);
		/* 0 stands for an address that is not known. */
		if (in && !in->stubs && each.begin != 0)
			kept.push_back(std::move(each));
	}
	/* A function without a size extends to the next one, or to the end of the section. */
	for (std::size_t i = 0; i < kept.size(); i++) {
		const auto *const in = section_at(kept[i].begin);
		auto limit = in->end();
		if (i + 1 < kept.size())
			limit = std::min(limit, kept[i + 1].begin);
		if (kept[i].end == 0)
			kept[i].end = limit;
	}
	all = std::move(kept);
}

const function *image::function_around(address at) const
{
	auto after = std::upper_bound(
		functions_.begin(), functions_.end(), at,
		[](address value, const function &each) { return value < each.begin; });

	if (after == functions_.begin())
		return nullptr;
	--after;
	return at < after->end ? &*after : nullptr;
}

const function *image::function_at(address at) const
{
	const auto *const found = function_around(at);

	return found && found->begin == at ? found : nullptr;
}

std::vector<std::string> image::names_of(address at) const
{
	std::vector<std::string> all;
	const auto [from, to] = symbols_.equal_range(at);

	for (auto each = from; each != to; ++each)
		all.push_back(each->second);
	return all;
}

const section *image::section_at(address at) const
{
	auto after = code_.upper_bound(at);

	if (after == code_.begin())
		return nullptr;
	const auto &found = sections_[std::prev(after)->second];
	return at - found.begin < found.bytes.size() ? &found : nullptr;
}

const referred *image::word(address at) const
{
	const auto found = words_.find(at);

	return found == words_.end() ? nullptr : &found->second;
}

std::string image::text_of(address at) const
{
	char text[32];
	const auto *const in = section_at(at);

	std::snprintf(text, sizeof text, "0x%llx",
		      static_cast<unsigned long long>(relocatable_ && in ? at - in->begin : at));
	return text;
}

std::uint64_t image::file_offset(address at) const
{
	const auto *const in = section_at(at);

	return in ? in->file_offset + (at - in->begin) : 0;
}

bool image::read(address at, instruction &into) const
{
	const auto *const in = section_at(at);

	if (!in) {
		into = instruction{};
		into.at = at;
		into.size = 1;
		return false;
	}
	const auto offset = static_cast<std::size_t>(at - in->begin);
	if (!cpu_->read(in->bytes.data() + offset, in->bytes.size() - offset, at, into))
		return false;
	if (relocatable_) {
		auto found = relocations_.lower_bound(at);
		for (; found != relocations_.end() && found->first < into.end(); ++found)
			apply(found->second, into);
	} else {
		resolve_stub(into);
	}
	return true;
}

/* Does the linker's work for an instruction of a relocatable object. */
void image::apply(const relocation &how, instruction &into) const
{
	/* The number that is added to the symbol. x86 counts from the operand, which is usually
	 * the last one. */
	const auto local = [&](std::int64_t more) {
		return how.defined ? how.target + static_cast<address>(how.addend) +
					     static_cast<address>(more)
				   : 0;
	};
	const auto call = [&](std::int64_t more) {
		into.name = how.name;
		into.target = local(more);
		into.has_target = true;
	};
	/* The value of the register that the instruction sets. */
	const auto set = [&](act what, std::int64_t number) {
		for (std::size_t i = 0; i < into.count; i++) {
			auto &each = into.steps[i];
			if (each.to == none ||
			    (each.what != act::load && each.what != act::constant &&
			     each.what != act::add))
				continue;
			each.what = number == 0 ? act::forget : what;
			each.number = number;
		}
	};

	if (is_x86_) {
		switch (how.type) {
		case R_X86_64_PLT32:
		case R_X86_64_PC32:
			if (into.has_target)
				call(4);
			else
				set(act::constant, static_cast<std::int64_t>(local(4)));
			return;
		case R_X86_64_32:
		case R_X86_64_32S:
		case R_X86_64_64:
			set(act::constant, static_cast<std::int64_t>(local(0)));
			return;
		case R_X86_64_GOTPCREL:
		case R_X86_64_GOTPCRELX:
		case R_X86_64_REX_GOTPCRELX:
			if (into.next == going::call || into.next == going::jump) {
				into.via = {};
				into.name = how.name;
				into.target = how.defined ? how.target : 0;
				into.has_target = true;
			} else if (how.name != none) {
				/* Index 0 is a valid name, so names count from 1 here. */
				set(act::function, how.name + 1);
			}
			return;
		case R_X86_64_TLSDESC_CALL:
			into.descriptor = true;
			return;
		case R_X86_64_GOTTPOFF:
		case R_X86_64_TLSGD:
		case R_X86_64_TLSLD:
		case R_X86_64_GOTPC32_TLSDESC:
			set(act::constant, 0);
			return;
		default:
			return;
		}
	}
	switch (how.type) {
	case R_AARCH64_CALL26:
	case R_AARCH64_JUMP26:
	case R_AARCH64_CONDBR19:
	case R_AARCH64_TSTBR14:
		call(0);
		return;
	case R_AARCH64_ADR_PREL_LO21:
	case R_AARCH64_ADD_ABS_LO12_NC:
		set(act::constant, static_cast<std::int64_t>(local(0)));
		return;
	case R_AARCH64_LD64_GOT_LO12_NC:
		if (how.name != none)
			set(act::function, how.name + 1);
		return;
	case R_AARCH64_TLSDESC_CALL:
		into.descriptor = true;
		return;
	case R_AARCH64_ADR_PREL_PG_HI21:
	case R_AARCH64_ADR_GOT_PAGE:
	case R_AARCH64_TLSDESC_ADR_PAGE21:
	case R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21:
		set(act::constant, 0);
		return;
	default:
		return;
	}
}

/* Turns a call of a linker's stub into a call of the function that the stub jumps to. */
void image::resolve_stub(instruction &into) const
{
	if (!into.has_target)
		return;
	const auto *const in = section_at(into.target);
	if (!in || !in->stubs)
		return;
	address values[register_count] = {};
	address at = into.target;
	for (int i = 0; i < 6; i++) {
		instruction each;
		const auto offset = static_cast<std::size_t>(at - in->begin);
		if (offset >= in->bytes.size() ||
		    !cpu_->read(in->bytes.data() + offset, in->bytes.size() - offset, at, each))
			return;
		for (std::size_t k = 0; k < each.count; k++) {
			const auto &step = each.steps[k];
			if (step.what == act::constant && step.to != none)
				values[step.to] = static_cast<address>(step.number);
			if (step.what != act::load && step.what != act::touch)
				continue;
			auto from = static_cast<address>(step.memory.displacement);
			if (!step.memory.fixed && step.memory.base != none)
				from += values[step.memory.base];
			const auto *const found = word(from);
			if (found) {
				into.name = found->name;
				into.target = found->target;
				return;
			}
		}
		if (each.next != going::on)
			return;
		at = each.end();
	}
}

} // namespace checking
