/* SPDX-License-Identifier: MIT */
#include "lines.hpp"

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>

#include <utility>
#include <vector>

namespace checking
{
namespace
{

int remember(Dwfl_Module *module, void **, const char *, Dwarf_Addr, void *all)
{
	static_cast<std::vector<Dwfl_Module *> *>(all)->push_back(module);
	return DWARF_CB_OK;
}

std::string line_of(Dwarf_Line *line)
{
	int n = 0;
	const char *const file = line ? dwarf_linesrc(line, nullptr, nullptr) : nullptr;

	return file && dwarf_lineno(line, &n) == 0 && n > 0 ? file + (":" + std::to_string(n)) : "";
}

} // namespace

struct lines::opened {
	Dwfl_Callbacks callbacks = {};
	Dwfl *session = nullptr;
	std::vector<Dwfl_Module *> modules;

	explicit opened(const std::string &file)
	{
		callbacks.find_elf = dwfl_build_id_find_elf;
		callbacks.find_debuginfo = dwfl_standard_find_debuginfo;
		callbacks.section_address = dwfl_offline_section_address;
		session = dwfl_begin(&callbacks);
		if (!session)
			return;
		dwfl_report_begin(session);
		dwfl_report_offline(session, "", file.c_str(), -1);
		dwfl_report_end(session, nullptr, nullptr);
		dwfl_getmodules(session, remember, &modules, 0);
	}
	~opened() { dwfl_end(session); }
	opened(const opened &) = delete;
	opened &operator=(const opened &) = delete;
};

lines::lines(std::string file) : file_(std::move(file)) {}
lines::~lines() = default;

std::string lines::at(std::size_t number, const image &in, address where)
{
	if (!opened_)
		opened_ = std::make_unique<opened>(file_);
	if (number >= opened_->modules.size())
		return "";
	auto *const module = opened_->modules[number];
	GElf_Addr bias = 0;
	auto *const elf = dwfl_module_getelf(module, &bias);
	const auto *const section = in.section_at(where);
	if (!elf || !section)
		return "";
	auto there = where + bias;
	if (in.relocatable()) {
		GElf_Shdr header;
		auto *const scn = elf_getscn(elf, section->index);
		if (!scn || !gelf_getshdr(scn, &header))
			return "";
		there = header.sh_addr + (where - section->begin) + bias;
	}
	auto *line = dwfl_module_getsrc(module, there);
	int n = 0;
	/* libdwfl finds the unit by .debug_aranges, which clang does not write. */
	Dwarf_Die *unit = nullptr;
	Dwarf_Addr unit_bias = 0;
	while (!line && (unit = dwfl_module_nextcu(module, unit, &unit_bias)) != nullptr)
		if (dwarf_haspc(unit, there - unit_bias) == 1)
			return line_of(dwarf_getsrc_die(unit, there - unit_bias));
	const char *const file =
		line ? dwfl_lineinfo(line, nullptr, &n, nullptr, nullptr, nullptr) : nullptr;
	if (!file || n <= 0)
		return "";
	return file + (":" + std::to_string(n));
}

} // namespace checking
