/* SPDX-License-Identifier: MIT */
#include "text.hpp"

#include "trace/json.hpp"
#include "trace/units.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace checking
{
namespace
{

/* Longer names are not demangled, because the demangler is recursive, and names come from files. */
constexpr std::size_t longest_mangled = 1000;
constexpr std::size_t most_steps_shown = 4;

std::string name_text(const std::string &name)
{
	if (name.compare(0, 2, "_Z") == 0 && name.size() <= longest_mangled) {
		int status = 0;
		const std::unique_ptr<char, decltype(&std::free)> text(
			abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
		if (text && status == 0)
			return tracing::clean(text.get());
	}
	return tracing::clean(name);
}

/* The name with (), unless it has its arguments. */
std::string call_text(const std::string &name)
{
	if (name.empty())
		return "a call of an unknown function";
	const auto text = name_text(name);
	const bool plain =
		text.find('(') == std::string::npos && text.find(' ') == std::string::npos;
	return plain ? text + "()" : text;
}

const char *use_text(use how)
{
	switch (how) {
	case use::dereferenced:
		return "memory is read or written by it";
	case use::passed:
		return "it is passed to another function";
	case use::returned:
		return "it is returned";
	case use::stored:
		return "it is stored";
	case use::looked_at:
		return "it is looked at";
	}
	return "";
}

const char *use_word(use how)
{
	switch (how) {
	case use::dereferenced:
		return "dereferenced";
	case use::passed:
		return "passed";
	case use::returned:
		return "returned";
	case use::stored:
		return "stored";
	case use::looked_at:
		return "looked_at";
	}
	return "";
}

std::string line_text(const place &at, const std::string &what)
{
	const auto width = std::max<std::size_t>(at.address.size(), 10);
	auto text = "    " + at.address + std::string(width - at.address.size() + 2, ' ') + what;

	if (!at.source.empty())
		text += ", " + tracing::clean(at.source);
	return text + "\n";
}

std::string path_text(const report_row &row)
{
	std::string text;

	for (std::size_t i = 0; i < row.through.size(); i++) {
		const auto left = row.through.size() - i;
		if (i + 1 >= most_steps_shown && left > 1) {
			text += ", ...";
			i = row.through.size() - 1;
		}
		text += (i == 0 ? ", by way of " : ", ") + name_text(row.through[i]);
	}
	return text;
}

std::string row_text(const std::string &title, const report_row &row)
{
	auto text = title + ": " + name_text(row.function) + " keeps " + text_of(row.what) +
		    " in " + row.kept_in + " across a call that may park\n";

	text += line_text(row.found, row.found_by.empty() ? "it is computed here"
							  : "found by " + call_text(row.found_by));
	text += line_text(row.call, call_text(row.callee) + " may park" + path_text(row));
	text += line_text(row.used, use_text(row.how));
	return text;
}

void place_json(tracing::json &to, const char *key, const place &at)
{
	to.open(key, '{').add("address", at.address).add("file_offset", at.file_offset);
	if (!at.source.empty())
		to.add("line", at.source);
	to.close('}');
}

} // namespace

std::string title(const file_report &in, const member_report &of)
{
	const auto file = tracing::clean(in.file);

	return of.member.empty() ? file : file + "(" + tracing::clean(of.member) + ")";
}

std::string to_text(const file_report &all)
{
	std::string text;
	std::size_t functions = 0;
	std::size_t found = 0;

	for (const auto &member : all.members) {
		functions += member.functions;
		std::string last;
		for (const auto &row : member.rows) {
			if (row.function_address != last)
				found++;
			last = row.function_address;
			text += row_text(title(all, member), row);
		}
	}
	if (functions == 0 && found == 0 &&
	    std::all_of(all.members.begin(), all.members.end(),
			[](const member_report &each) { return !each.error.empty(); }))
		return text;
	return text + tracing::clean(all.file) + ": " + tracing::count_text(found) + " of " +
	       tracing::count_text(functions) +
	       " functions keep what belongs to a thread across a call that may park\n";
}

std::string to_json(const std::vector<file_report> &all)
{
	tracing::json to;

	to.open('{').open("files", '[');
	for (const auto &file : all) {
		to.open('{').add("file", file.file);
		if (!file.error.empty())
			to.add("error", file.error);
		to.open("members", '[');
		for (const auto &member : file.members) {
			to.open('{').add("member", member.member);
			if (!member.error.empty())
				to.add("error", member.error);
			to.add("functions", member.functions)
				.add("unread", member.unread)
				.add("given_up", member.given_up)
				.open("findings", '[');
			for (const auto &row : member.rows) {
				to.open('{')
					.add("function", row.function)
					.add("function_address", row.function_address)
					.add("what", word_of(row.what))
					.add("kept_in", row.kept_in)
					.add("found_by", row.found_by)
					.add("callee", row.callee)
					.open("through", '[');
				for (const auto &each : row.through)
					to.value(each);
				to.close(']').add("use", use_word(row.how));
				place_json(to, "found", row.found);
				place_json(to, "call", row.call);
				place_json(to, "used", row.used);
				to.close('}');
			}
			to.close(']').close('}');
		}
		to.close(']').close('}');
	}
	return to.close(']').close('}').text();
}

} // namespace checking
