/* SPDX-License-Identifier: MIT */
/*
 * The web page, page.html with page.css and page.js in it, as compiled into the program.
 * embed.cmake makes page.cc from them.
 */
#ifndef RELAY_PAGE_HPP
#define RELAY_PAGE_HPP

#include <string_view>

namespace relay
{

extern const std::string_view page_html;

} // namespace relay

#endif
