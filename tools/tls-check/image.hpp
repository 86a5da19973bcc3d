/* SPDX-License-Identifier: MIT */
/*
 * One ELF file, or one member of an archive: its functions, its code, and the names that the code
 * refers to. It is read by libelf, and every field is checked before it is used.
 *
 * Addresses are the file's own. For a relocatable object they are made up, so that its sections do
 * not overlap; text_of() returns the form that a reader expects.
 */
#ifndef TLS_CHECK_IMAGE_HPP
#define TLS_CHECK_IMAGE_HPP

#include "code.hpp"
#include "machine.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

struct Elf;

namespace checking
{

/* Thrown if the file cannot be read; it has the reason. */
struct unreadable {
	std::string why;
};

struct section {
	std::size_t index = 0; /* in the file */
	std::string name;
	address begin = 0;
	address file_offset = 0;
	std::vector<std::uint8_t> bytes;
	bool stubs = false; /* a procedure linkage table */

	address end() const { return begin + bytes.size(); }
};

struct function {
	std::string name; /* "" if there is no symbol */
	address begin = 0;
	address end = 0;
};

/* What a call, a jump or a word of the global offset table leads to. */
struct referred {
	int name = none;         /* names() */
	address target = 0;      /* 0: not in this file */
	bool descriptor = false; /* of a thread-local */
};

class image
{
public:
	/* Throws unreadable. Keeps nothing of `elf`. */
	explicit image(Elf *elf);
	~image();
	image(const image &) = delete;
	image &operator=(const image &) = delete;

	machine &cpu() const { return *cpu_; }
	bool relocatable() const { return relocatable_; }

	/* All functions, in the order of their addresses, which are distinct. */
	const std::vector<function> &functions() const { return functions_; }
	/* The function that begins at the address; NULL if there is none. */
	const function *function_at(address at) const;
	const function *function_around(address at) const;
	/* All symbols with that address: the function's name and its aliases. */
	std::vector<std::string> names_of(address at) const;

	const std::string &name(int id) const { return names_[static_cast<std::size_t>(id)]; }

	const section *section_at(address at) const;
	/* Reads an instruction, with the file's relocations of its operands. Returns false if
	 * there is no code, or if capstone does not know the bytes. `into` then has the size to
	 * skip. */
	bool read(address at, instruction &into) const;
	/* What a word of memory holds when the program runs, if the file determines it. */
	const referred *word(address at) const;

	/* The address in objdump's form; for a relocatable object, the offset in the section. */
	std::string text_of(address at) const;
	std::uint64_t file_offset(address at) const;

private:
	struct relocation;

	void read_sections(Elf *elf);
	void read_symbols(Elf *elf);
	void read_relocations(Elf *elf);
	void read_unwinding(Elf *elf);
	void unwinding_of(Elf *elf, const std::uint8_t *bytes, std::size_t size, address begin);
	void order_functions();
	int id_of(const std::string &name);
	std::optional<address> symbol_address(std::size_t section_index, address value) const;
	void apply(const relocation &how, instruction &into) const;
	void resolve_stub(instruction &into) const;

	std::unique_ptr<machine> cpu_;
	bool relocatable_ = false;
	bool is_x86_ = false;
	std::vector<section> sections_;
	std::map<address, std::size_t> code_; /* sections with code, by their first addresses */
	std::unordered_map<std::size_t, std::size_t> by_index_; /* of the file: in sections_ */
	std::vector<function> functions_;
	std::multimap<address, std::string> symbols_;
	std::vector<std::string> names_;
	std::unordered_map<std::string, int> ids_;
	std::map<address, relocation> relocations_; /* in code, of a relocatable object */
	std::unordered_map<address, referred> words_;
	std::map<std::size_t, std::pair<address, address>> constant_; /* .got and the like */
};

} // namespace checking

#endif
