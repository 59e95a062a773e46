/* How the search of the site orders what it finds: first pages with a heading that has many of the
 * words, and guides before pages to look things up, which have every word somewhere. */
const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/* Return the largest share of the words asked for that one heading of a page has. */
const headingShare = (page) => {
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const asked = wordsOf(query).filter((word) => word.length > 2);
  const { alltitles, docnames } = Search._index;
  const shares = Object.entries(alltitles)
    .filter(([, places]) => places.some(([file]) => docnames[file] === page))
    .map(([heading]) => wordsOf(heading))
    .map((words) => asked.filter((word) => words.includes(word)).length / (asked.length || 1));
  return Math.max(0, ...shares);
};

var Scorer = {
  score: ([page, , , , score]) =>
    score + 10 * headingShare(page) - (@reference@.includes(page) ? 8 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
