// What the search of the site has besides Sphinx's own. Sphinx loads this after its searchtools.js.

// Among pages that have the word, those come first that tell a user what to do, and last those about this project.
const PLACES = [
  [/^(architecture|changelog|conformance|contributing|heart|how-we-know|mutants)$/, -4],
  [/^operations$/, 3],
  [/^faq$|^how-to\//, 2],
  [/^api\//, -1],
];
Scorer.score = ([page, , , , score]) =>
  PLACES.reduce((sum, [place, more]) => sum + (place.test(page) ? more : 0), score);

// A page whose text has the word goes before a name that has it among other words, such as OnPoison.
Scorer.objPartialMatch = 1;

// Sphinx leaves out words of digits only. tools/docs_search.py keeps those of three digits, such as a status.
const parseWords = Search._parseQuery;
Search._parseQuery = (query) => {
  const parsed = parseWords(query);
  const [, words, , shown] = parsed;
  for (const word of query.match(/\b\d{3}\b/g) ?? []) {
    words.add(word);
    shown.add(word);
  }
  return parsed;
};
