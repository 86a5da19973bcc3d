/* SPDX-License-Identifier: MIT */
/*
 * Source lines, by libdwfl, from the file itself or from its separate debug file where the system
 * has one. Opened only when there is something to look up.
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

	/* "file:line", or "". number: of the member among those of the archive that are ELF. */
	std::string at(std::size_t number, const image &in, address where);

private:
	struct opened;
	std::string file_;
	std::unique_ptr<opened> opened_;
};

} // namespace checking

#endif
