# SPDX-License-Identifier: MIT
#
# cmake -D from=page.html -D to=page.cc -P embed.cmake: embeds the file's bytes as page_html.
file(READ ${from} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n\t" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${to} "#include \"page.hpp\"

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
