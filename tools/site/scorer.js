/* How the search of the site orders what it finds: guides come before pages to look things up,
 * which have every word. `tools/site/build.py` fills in their names. */
var Scorer = {
  score: ([page, , , , score]) => (@reference@.includes(page) ? score - 8 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
