// Analyzes Kusto queries against the tables of Application Insights that they ask.
// Reads {tables: {name: "column: type, …"}, queries: {name: text}} from the standard input, and writes for each query
// its columns and what is wrong with it.
"use strict";
require("@kusto/language-service-next/bridge.js");
require("@kusto/language-service-next/Kusto.Language.Bridge.js");
const { KustoCode, GlobalState, Symbols } = Kusto.Language;

function list(items) {
  return items ? Array.from({ length: System.Array.getCount(items) }, (_, at) => System.Array.getItem(items, at)) : [];
}

const { tables, queries } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const symbols = Object.entries(tables).map(([name, columns]) => Symbols.TableSymbol.From(`(${columns})`).WithName(name));
const database = new Symbols.DatabaseSymbol.ctor("insights", symbols);
const globals = GlobalState.Default.WithDatabase(database);
const answers = {};
for (const [name, text] of Object.entries(queries)) {
  const code = KustoCode.ParseAndAnalyze(text, globals);
  answers[name] = {
    columns: list(code.ResultType && code.ResultType.Columns).map((column) => column.Name),
    faults: list(code.GetDiagnostics()).map((fault) => fault.Message),
  };
}
console.log(JSON.stringify(answers));
