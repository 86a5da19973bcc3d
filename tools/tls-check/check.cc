/* SPDX-License-Identifier: MIT */
#include "check.hpp"

#include "lines.hpp"

#include <fcntl.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <set>

namespace checking
{
namespace
{

/* Closes what it has opened. */
class descriptor
{
public:
	explicit descriptor(const std::string &name) : fd_(open(name.c_str(), O_RDONLY | O_CLOEXEC))
	{
	}
	~descriptor()
	{
		if (fd_ >= 0)
			close(fd_);
	}
	descriptor(const descriptor &) = delete;
	descriptor &operator=(const descriptor &) = delete;
	int get() const { return fd_; }

private:
	int fd_;
};

/* Ends with its scope, also when what reads it throws. */
class open_elf
{
public:
	open_elf(int fd, Elf_Cmd how, Elf *archive) : elf_(elf_begin(fd, how, archive)) {}
	~open_elf() { elf_end(elf_); }
	open_elf(const open_elf &) = delete;
	open_elf &operator=(const open_elf &) = delete;
	Elf *get() const { return elf_; }

private:
	Elf *elf_;
};

std::string holder_text(const image &in, const holder &kept)
{
	if (kept.reg != none)
		return in.cpu().register_name(kept.reg);
	const auto pointer = in.cpu().register_name(in.cpu().stack_pointer);
	if (!kept.known_slot)
		return "a slot of the stack";
	char text[64];
	std::snprintf(text, sizeof text, "the slot %s+0x%llx", pointer.c_str(),
		      static_cast<unsigned long long>(kept.slot));
	return text;
}

std::string function_text(const image &in, const function &which)
{
	return which.name.empty() ? "the function at " + in.text_of(which.begin) : which.name;
}

class checker
{
public:
	checker(const image &in, const choice &asked, lines &where, std::size_t number)
	    : image_(in), calls_(in, asked), lines_(where), number_(number)
	{
	}

	member_report run()
	{
		member_report made;
		std::deque<const function *> next;
		std::set<const function *> queued;
		std::map<const function *, flow_result> results;

		const auto add = [&](const function *each) {
			/* A cold part is read with the function to which it belongs. */
			if (each->name.find(".cold") == std::string::npos &&
			    queued.insert(each).second)
				next.push_back(each);
		};
		for (const auto &each : image_.functions())
			if (calls_.finds(each))
				add(&each);
		while (!next.empty()) {
			const auto *const each = next.front();
			next.pop_front();
			queued.erase(each);
			auto &result = results[each] = follow(image_, *each, calls_);
			if (result.returns == kind::none)
				continue;
			/* The first result is final, because the kind that a function returns
			 * does not change. */
			if (calls_.returns(none, each->begin) == kind::none)
				for (const auto *caller : calls_.set_returns(*each, result.returns))
					add(caller);
		}
		made.functions = image_.functions().size();
		made.unread = calls_.unread();
		std::set<address> seen; /* a cold part is read with its function and alone */
		for (const auto &each : image_.functions()) {
			const auto found = results.find(&each);
			if (found == results.end())
				continue;
			made.given_up += found->second.complete ? 0 : 1;
			for (const auto &finding : found->second.findings)
				if (seen.insert(finding.found_at).second)
					made.rows.push_back(row(each, finding));
		}
		return made;
	}

private:
	place at(address where)
	{
		return {image_.text_of(where), image_.file_offset(where),
			lines_.at(number_, image_, where)};
	}

	report_row row(const function &in, const finding &from)
	{
		report_row made;

		made.function = function_text(image_, in);
		made.function_address = image_.text_of(in.begin);
		made.what = from.what;
		made.found_by = calls_.callee_text(from.found_by.name, from.found_by.target);
		made.callee = calls_.callee_text(from.called.name, from.called.target);
		made.through = calls_.path(from.called.name, from.called.target);
		made.kept_in = holder_text(image_, from.kept);
		made.how = from.how;
		made.found = at(from.found_at);
		made.call = at(from.call_at);
		made.used = at(from.used_at);
		return made;
	}

	const image &image_;
	graph calls_;
	lines &lines_;
	std::size_t number_;
};

member_report check_member(Elf *elf, const choice &asked, lines &where, std::size_t number)
{
	member_report made;

	try {
		const image in(elf);
		made = checker(in, asked, where, number).run();
	} catch (const unreadable &error) {
		made.error = error.why;
	}
	return made;
}

} // namespace

file_report check_file(const std::string &file, const choice &asked)
{
	file_report made{.file = file};
	const descriptor from(file);
	struct stat about {
	};

	if (from.get() < 0 || fstat(from.get(), &about) < 0) {
		made.error = std::strerror(errno);
		return made;
	}
	if (!S_ISREG(about.st_mode)) {
		made.error = S_ISDIR(about.st_mode) ? "is a directory" : "is not a regular file";
		return made;
	}
	if (about.st_size == 0) {
		made.error = "is empty";
		return made;
	}
	elf_version(EV_CURRENT);
	lines where(file);
	const open_elf whole(from.get(), ELF_C_READ, nullptr);
	const auto what = whole.get() ? elf_kind(whole.get()) : ELF_K_NONE;
	if (what == ELF_K_ELF) {
		made.members.push_back(check_member(whole.get(), asked, where, 0));
		return made;
	}
	if (what != ELF_K_AR) {
		made.error = "is neither an ELF file nor an archive";
		return made;
	}
	std::size_t number = 0;
	auto how = ELF_C_READ;
	while (how != ELF_C_NULL) {
		const open_elf member(from.get(), how, whole.get());
		if (!member.get()) {
			if (made.members.empty() && elf_errno() != 0)
				made.error = "is a damaged archive, or one that refers to files";
			break;
		}
		const auto *const header = elf_getarhdr(member.get());
		const std::string name = header && header->ar_name ? header->ar_name : "";
		if (elf_kind(member.get()) == ELF_K_ELF) {
			auto one = check_member(member.get(), asked, where, number++);
			one.member = name.empty() ? "?" : name;
			made.members.push_back(std::move(one));
		} else if (!name.empty() && name[0] != '/') {
			member_report one;
			one.member = name;
			one.error = "is not an ELF file";
			made.members.push_back(std::move(one));
		}
		how = elf_next(member.get());
	}
	return made;
}

} // namespace checking
