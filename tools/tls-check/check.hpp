/* SPDX-License-Identifier: MIT */
/* Checks a whole file: the findings in all of its functions, and in all members if it is an
 * archive. */
#ifndef TLS_CHECK_CHECK_HPP
#define TLS_CHECK_CHECK_HPP

#include "flow.hpp"
#include "graph.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace checking
{

/* A place in the code, for people and for other programs. */
struct place {
	std::string address; /* in objdump's form */
	std::uint64_t file_offset = 0;
	std::string source; /* file:line, if there is debug information */
};

struct report_row {
	std::string function;
	std::string function_address;
	kind what = kind::none;
	std::string found_by; /* "" for an instruction */
	std::string callee;   /* "" if it is unknown */
	std::vector<std::string> through;
	std::string kept_in;
	use how = use::dereferenced;
	place found;
	place call;
	place used;
};

struct member_report {
	std::string member; /* of an archive, else "" */
	std::size_t functions = 0;
	std::size_t unread = 0;   /* functions with bytes that capstone does not know */
	std::size_t given_up = 0; /* functions that were too large */
	std::vector<report_row> rows;
	std::string error; /* why it could not be read, "" if it could */
};

struct file_report {
	std::string file;
	std::vector<member_report> members{};
	std::string error{};
};

file_report check_file(const std::string &file, const choice &asked);

} // namespace checking

#endif
