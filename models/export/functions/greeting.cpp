std::string Greeter::greeting(const std::string &who, int hour) const
{
    // "</s>" and "<mask>" are text here, and so are “quotes” and 挨拶.
    static const char *const words[] = { "Guten Morgen", "Grüß Gott", "おやすみ" };
    const char *word = words[hour < 12 ? 0 : hour < 20 ? 1 : 2];

    if (who.empty())
        return word;
    return std::string(word) + ", " + who + "</s>";
}
