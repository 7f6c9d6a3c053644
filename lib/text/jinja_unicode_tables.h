// What utf8proc does not tell of Unicode: the case mappings of one code point
// to several (SpecialCasing.txt), and properties beyond the general category.
#pragma once

namespace rbln::jinja {

struct CodePointRange {
  char32_t first, last;
};

struct SpecialCase {
  char32_t code_point;
  const char8_t* upper;
  const char8_t* title;
};

// Lowercase, but not of category Ll.
inline constexpr CodePointRange kOtherLowercase[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},
    {0x2C0, 0x2C1},     {0x2E0, 0x2E4},     {0x345, 0x345},
    {0x37A, 0x37A},     {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},
    {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
    {0x2090, 0x209C},   {0x2170, 0x217F},   {0x24D0, 0x24E9},
    {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},
    {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},   {0x10780, 0x10780},
    {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
};

// Uppercase, but not of category Lu.
inline constexpr CodePointRange kOtherUppercase[] = {
    {0x2160, 0x216F},   {0x24B6, 0x24CF},   {0x1F130, 0x1F149},
    {0x1F150, 0x1F169}, {0x1F170, 0x1F189},
};

// Digits that are not decimal.
inline constexpr CodePointRange kOtherDigits[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},
    {0x19DA, 0x19DA},   {0x2070, 0x2070},   {0x2074, 0x2079},
    {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},
    {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
    {0x278A, 0x2792},   {0x10A40, 0x10A43}, {0x10E60, 0x10E68},
    {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
};

// Numeric, but not of a category N*.
inline constexpr CodePointRange kOtherNumeric[] = {
    {0x3405, 0x3405},   {0x3483, 0x3483},   {0x382A, 0x382A},
    {0x3B4D, 0x3B4D},   {0x4E00, 0x4E00},   {0x4E03, 0x4E03},
    {0x4E07, 0x4E07},   {0x4E09, 0x4E09},   {0x4E5D, 0x4E5D},
    {0x4E8C, 0x4E8C},   {0x4E94, 0x4E94},   {0x4E96, 0x4E96},
    {0x4EBF, 0x4EC0},   {0x4EDF, 0x4EDF},   {0x4EE8, 0x4EE8},
    {0x4F0D, 0x4F0D},   {0x4F70, 0x4F70},   {0x5104, 0x5104},
    {0x5146, 0x5146},   {0x5169, 0x5169},   {0x516B, 0x516B},
    {0x516D, 0x516D},   {0x5341, 0x5341},   {0x5343, 0x5345},
    {0x534C, 0x534C},   {0x53C1, 0x53C4},   {0x56DB, 0x56DB},
    {0x58F1, 0x58F1},   {0x58F9, 0x58F9},   {0x5E7A, 0x5E7A},
    {0x5EFE, 0x5EFF},   {0x5F0C, 0x5F0E},   {0x5F10, 0x5F10},
    {0x62FE, 0x62FE},   {0x634C, 0x634C},   {0x67D2, 0x67D2},
    {0x6F06, 0x6F06},   {0x7396, 0x7396},   {0x767E, 0x767E},
    {0x8086, 0x8086},   {0x842C, 0x842C},   {0x8CAE, 0x8CAE},
    {0x8CB3, 0x8CB3},   {0x8D30, 0x8D30},   {0x9621, 0x9621},
    {0x9646, 0x9646},   {0x964C, 0x964C},   {0x9678, 0x9678},
    {0x96F6, 0x96F6},   {0xF96B, 0xF96B},   {0xF973, 0xF973},
    {0xF978, 0xF978},   {0xF9B2, 0xF9B2},   {0xF9D1, 0xF9D1},
    {0xF9D3, 0xF9D3},   {0xF9FD, 0xF9FD},   {0x20001, 0x20001},
    {0x20064, 0x20064}, {0x200E2, 0x200E2}, {0x20121, 0x20121},
    {0x2092A, 0x2092A}, {0x20983, 0x20983}, {0x2098C, 0x2098C},
    {0x2099C, 0x2099C}, {0x20AEA, 0x20AEA}, {0x20AFD, 0x20AFD},
    {0x20B19, 0x20B19}, {0x22390, 0x22390}, {0x22998, 0x22998},
    {0x23B1B, 0x23B1B}, {0x2626D, 0x2626D}, {0x2F890, 0x2F890},
};

// Sorted by code point.
inline constexpr SpecialCase kSpecialCases[] = {
    {0xDF, u8"SS", u8"Ss"},
    {0x149, u8"\u02BCN", u8"\u02BCN"},
    {0x1F0, u8"J\u030C", u8"J\u030C"},
    {0x390, u8"\u0399\u0308\u0301", u8"\u0399\u0308\u0301"},
    {0x3B0, u8"\u03A5\u0308\u0301", u8"\u03A5\u0308\u0301"},
    {0x587, u8"\u0535\u0552", u8"\u0535\u0582"},
    {0x1E96, u8"H\u0331", u8"H\u0331"},
    {0x1E97, u8"T\u0308", u8"T\u0308"},
    {0x1E98, u8"W\u030A", u8"W\u030A"},
    {0x1E99, u8"Y\u030A", u8"Y\u030A"},
    {0x1E9A, u8"A\u02BE", u8"A\u02BE"},
    {0x1F50, u8"\u03A5\u0313", u8"\u03A5\u0313"},
    {0x1F52, u8"\u03A5\u0313\u0300", u8"\u03A5\u0313\u0300"},
    {0x1F54, u8"\u03A5\u0313\u0301", u8"\u03A5\u0313\u0301"},
    {0x1F56, u8"\u03A5\u0313\u0342", u8"\u03A5\u0313\u0342"},
    {0x1F80, u8"\u1F08\u0399", u8"\u1F88"},
    {0x1F81, u8"\u1F09\u0399", u8"\u1F89"},
    {0x1F82, u8"\u1F0A\u0399", u8"\u1F8A"},
    {0x1F83, u8"\u1F0B\u0399", u8"\u1F8B"},
    {0x1F84, u8"\u1F0C\u0399", u8"\u1F8C"},
    {0x1F85, u8"\u1F0D\u0399", u8"\u1F8D"},
    {0x1F86, u8"\u1F0E\u0399", u8"\u1F8E"},
    {0x1F87, u8"\u1F0F\u0399", u8"\u1F8F"},
    {0x1F88, u8"\u1F08\u0399", u8"\u1F88"},
    {0x1F89, u8"\u1F09\u0399", u8"\u1F89"},
    {0x1F8A, u8"\u1F0A\u0399", u8"\u1F8A"},
    {0x1F8B, u8"\u1F0B\u0399", u8"\u1F8B"},
    {0x1F8C, u8"\u1F0C\u0399", u8"\u1F8C"},
    {0x1F8D, u8"\u1F0D\u0399", u8"\u1F8D"},
    {0x1F8E, u8"\u1F0E\u0399", u8"\u1F8E"},
    {0x1F8F, u8"\u1F0F\u0399", u8"\u1F8F"},
    {0x1F90, u8"\u1F28\u0399", u8"\u1F98"},
    {0x1F91, u8"\u1F29\u0399", u8"\u1F99"},
    {0x1F92, u8"\u1F2A\u0399", u8"\u1F9A"},
    {0x1F93, u8"\u1F2B\u0399", u8"\u1F9B"},
    {0x1F94, u8"\u1F2C\u0399", u8"\u1F9C"},
    {0x1F95, u8"\u1F2D\u0399", u8"\u1F9D"},
    {0x1F96, u8"\u1F2E\u0399", u8"\u1F9E"},
    {0x1F97, u8"\u1F2F\u0399", u8"\u1F9F"},
    {0x1F98, u8"\u1F28\u0399", u8"\u1F98"},
    {0x1F99, u8"\u1F29\u0399", u8"\u1F99"},
    {0x1F9A, u8"\u1F2A\u0399", u8"\u1F9A"},
    {0x1F9B, u8"\u1F2B\u0399", u8"\u1F9B"},
    {0x1F9C, u8"\u1F2C\u0399", u8"\u1F9C"},
    {0x1F9D, u8"\u1F2D\u0399", u8"\u1F9D"},
    {0x1F9E, u8"\u1F2E\u0399", u8"\u1F9E"},
    {0x1F9F, u8"\u1F2F\u0399", u8"\u1F9F"},
    {0x1FA0, u8"\u1F68\u0399", u8"\u1FA8"},
    {0x1FA1, u8"\u1F69\u0399", u8"\u1FA9"},
    {0x1FA2, u8"\u1F6A\u0399", u8"\u1FAA"},
    {0x1FA3, u8"\u1F6B\u0399", u8"\u1FAB"},
    {0x1FA4, u8"\u1F6C\u0399", u8"\u1FAC"},
    {0x1FA5, u8"\u1F6D\u0399", u8"\u1FAD"},
    {0x1FA6, u8"\u1F6E\u0399", u8"\u1FAE"},
    {0x1FA7, u8"\u1F6F\u0399", u8"\u1FAF"},
    {0x1FA8, u8"\u1F68\u0399", u8"\u1FA8"},
    {0x1FA9, u8"\u1F69\u0399", u8"\u1FA9"},
    {0x1FAA, u8"\u1F6A\u0399", u8"\u1FAA"},
    {0x1FAB, u8"\u1F6B\u0399", u8"\u1FAB"},
    {0x1FAC, u8"\u1F6C\u0399", u8"\u1FAC"},
    {0x1FAD, u8"\u1F6D\u0399", u8"\u1FAD"},
    {0x1FAE, u8"\u1F6E\u0399", u8"\u1FAE"},
    {0x1FAF, u8"\u1F6F\u0399", u8"\u1FAF"},
    {0x1FB2, u8"\u1FBA\u0399", u8"\u1FBA\u0345"},
    {0x1FB3, u8"\u0391\u0399", u8"\u1FBC"},
    {0x1FB4, u8"\u0386\u0399", u8"\u0386\u0345"},
    {0x1FB6, u8"\u0391\u0342", u8"\u0391\u0342"},
    {0x1FB7, u8"\u0391\u0342\u0399", u8"\u0391\u0342\u0345"},
    {0x1FBC, u8"\u0391\u0399", u8"\u1FBC"},
    {0x1FC2, u8"\u1FCA\u0399", u8"\u1FCA\u0345"},
    {0x1FC3, u8"\u0397\u0399", u8"\u1FCC"},
    {0x1FC4, u8"\u0389\u0399", u8"\u0389\u0345"},
    {0x1FC6, u8"\u0397\u0342", u8"\u0397\u0342"},
    {0x1FC7, u8"\u0397\u0342\u0399", u8"\u0397\u0342\u0345"},
    {0x1FCC, u8"\u0397\u0399", u8"\u1FCC"},
    {0x1FD2, u8"\u0399\u0308\u0300", u8"\u0399\u0308\u0300"},
    {0x1FD3, u8"\u0399\u0308\u0301", u8"\u0399\u0308\u0301"},
    {0x1FD6, u8"\u0399\u0342", u8"\u0399\u0342"},
    {0x1FD7, u8"\u0399\u0308\u0342", u8"\u0399\u0308\u0342"},
    {0x1FE2, u8"\u03A5\u0308\u0300", u8"\u03A5\u0308\u0300"},
    {0x1FE3, u8"\u03A5\u0308\u0301", u8"\u03A5\u0308\u0301"},
    {0x1FE4, u8"\u03A1\u0313", u8"\u03A1\u0313"},
    {0x1FE6, u8"\u03A5\u0342", u8"\u03A5\u0342"},
    {0x1FE7, u8"\u03A5\u0308\u0342", u8"\u03A5\u0308\u0342"},
    {0x1FF2, u8"\u1FFA\u0399", u8"\u1FFA\u0345"},
    {0x1FF3, u8"\u03A9\u0399", u8"\u1FFC"},
    {0x1FF4, u8"\u038F\u0399", u8"\u038F\u0345"},
    {0x1FF6, u8"\u03A9\u0342", u8"\u03A9\u0342"},
    {0x1FF7, u8"\u03A9\u0342\u0399", u8"\u03A9\u0342\u0345"},
    {0x1FFC, u8"\u03A9\u0399", u8"\u1FFC"},
    {0xFB00, u8"FF", u8"Ff"},
    {0xFB01, u8"FI", u8"Fi"},
    {0xFB02, u8"FL", u8"Fl"},
    {0xFB03, u8"FFI", u8"Ffi"},
    {0xFB04, u8"FFL", u8"Ffl"},
    {0xFB05, u8"ST", u8"St"},
    {0xFB06, u8"ST", u8"St"},
    {0xFB13, u8"\u0544\u0546", u8"\u0544\u0576"},
    {0xFB14, u8"\u0544\u0535", u8"\u0544\u0565"},
    {0xFB15, u8"\u0544\u053B", u8"\u0544\u056B"},
    {0xFB16, u8"\u054E\u0546", u8"\u054E\u0576"},
    {0xFB17, u8"\u0544\u053D", u8"\u0544\u056D"},
};

}  // namespace rbln::jinja
