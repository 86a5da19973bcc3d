# SPDX-License-Identifier: MIT
#
# cmake -D from=page.html -D to=page.cc -P embed.cmake: embeds the page's bytes as page_html. Puts
# page.css and page.js, which are beside the page, in place of its markers, so that the page is one
# answer.
get_filename_component(folder ${from} DIRECTORY)
file(READ ${from} page)
foreach(part page.css page.js)
	file(READ ${folder}/${part} text)
	string(REPLACE "@${part}@" "${text}" page "${page}")
endforeach()
string(HEX "${page}" bytes)
string(REGEX REPLACE "(................................)" "\\1\n\t" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${to} "#include \"admin/page.hpp\"

namespace relay
{
namespace
{

constexpr unsigned char bytes[] = {
	${bytes}
};

} // namespace

const std::string_view page_html(reinterpret_cast<const char *>(bytes), sizeof bytes);

} // namespace relay
")
