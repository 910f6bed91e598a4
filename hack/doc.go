// Package hack checks the repository as a whole: who may import whom, the house rules,
// and that the commands in README and quick start do what the page says. It is all
// tests; the programs below it generate code and pages.
package hack
