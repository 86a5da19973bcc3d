/* SPDX-License-Identifier: MIT */
/*
 * Finds source lines by libdwfl, in the file itself or in its separate debug file if the system has
 * one. The file is opened at the first request.
 */
#ifndef TLS_CHECK_LINES_HPP
#define TLS_CHECK_LINES_HPP

#include "code.hpp"
#include "image.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace checking
{

class lines
{
public:
	explicit lines(std::string file);
	~lines();
	lines(const lines &) = delete;
	lines &operator=(const lines &) = delete;

	/* "file:line", or "" if it is unknown. number: the index of the member among the ELF
	 * members of the archive. */
	std::string at(std::size_t number, const image &in, address where);

private:
	struct opened;
	std::string file_;
	std::unique_ptr<opened> opened_;
};

} // namespace checking

#endif
